"""The switch between the browser's theme, light and dark, below the menu. The browser remembers the choice."""

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent
REMEMBERED = "misstep-theme"  # where the browser keeps the choice, which app.py reads
HTML = """<div class="theme-switch" role="group" aria-label="Theme"><span aria-hidden="true">Theme</span>
<button value="System">auto</button><button value="Light">light</button><button value="Dark">dark</button></div>"""


def show() -> None:
    """Puts the switch where Streamlit is."""
    _component()(key="theme-switch", data={"remembered": REMEMBERED})


@cache
def _component() -> Any:
    js, css = ((_HERE / f"theme_switch{ending}").read_text(encoding="utf-8") for ending in (".js", ".css"))
    return st.components.v2.component("misstep.theme_switch", html=HTML, css=css, js=js, isolate_styles=False)
