"""The frame of the dashboard: its pages and menu, without their content."""

from pathlib import Path

import streamlit as st

from dashboard.access import sign_in
from dashboard.menu import FIRST, TITLES
from dashboard.parts import components, saved_views, search_box, theme_switch

SIDEBAR_PX = 220

# A local image: with a material icon alone, the browser would fetch the favicon from a font host.
st.set_page_config(
    page_icon=str(Path(__file__).parent / "static" / "misstep.png"),
    layout="wide",
    initial_sidebar_state=SIDEBAR_PX,
)

page = st.navigation(
    [
        st.Page(f"views/{name}.py", title=f"{title} · Misstep", url_path=name, default=name == FIRST)
        for name, title in TITLES.items()
    ],
    position="hidden",
)
if sign_in.passed():
    components.sidebar(page.url_path)
    with st.sidebar:
        saved_views.show(page.url_path)
        theme_switch.show()
    search_box.show()
    page.run()
