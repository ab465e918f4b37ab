"""Views: pages with their range and filters, saved under a name, for everybody who uses this collector."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from dashboard import menu
from dashboard.data.client import Answer, Problem, path
from dashboard.data.filters import parse
from dashboard.page import collector
from dashboard.parts import filter_bar, words

AGE_S = 30.0
MOST = "200"
_REFUSED = "views-refused"


def show(current: str) -> None:
    """The saved views as links, and a place to save the open page and to remove views."""
    st.fragment(_shown)(current or menu.FIRST)


def _shown(current: str) -> None:
    try:
        rows = _saved().pick("view_id", "name", "page", "query").rows()
    except Problem:
        return  # the page says it
    known = [row for row in rows if row[2] in menu.TITLES]
    if known:
        st.caption("Views")
    for _, name, page, query in known:
        st.page_link(f"views/{page}.py", label=words.plain(name, 80), query_params=opened(query), width="stretch")
    with st.popover("Save this view" if not known else "Save, remove", key="views", width="stretch"):
        _form(current)
        for view_id, name, *_ in rows:
            st.button(f"Remove {words.plain(name, 40)}", key=f"remove-{view_id}", on_click=_remove, args=(view_id,),
                      type="tertiary")  # fmt: skip
    if refused := st.session_state.pop(_REFUSED, ""):
        st.caption(refused)


def opened(query: str) -> Mapping[str, str]:
    """What the link of a view asks for: what is not understood in its query is left out."""
    return parse(dict(parse_qsl(query, keep_blank_values=True))).query()


def _saved() -> Answer:
    return collector().ask("views", {"limit": MOST}, max_age=AGE_S)


def _form(current: str) -> None:
    def save() -> None:
        asked = urlencode(filter_bar.from_link().query())
        name = st.session_state["view-name"].strip()
        _change("POST", "views", {"name": name, "page": current, "query": asked})

    with st.form("view-form", border=False, clear_on_submit=True):
        st.text_input("A name for this page with its range and filters", max_chars=80, key="view-name")
        st.form_submit_button("Save view", on_click=save)


def _remove(view_id: str) -> None:
    _change("DELETE", path("views", view_id), {})


def _change(method: str, place: str, said: dict[str, str]) -> None:
    try:
        collector().change(method, place, said)
    except Problem as problem:
        st.session_state[_REFUSED] = words.plain(problem.sentence, 300)
