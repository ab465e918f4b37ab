from dashboard import components

page = components.open_page("streak", "streak", "x")
