"""Components of our own: HTML whose links stay inside the session on a plain click, and are links otherwise."""

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent
_SHARED = (_HERE / "linking.js").read_text(encoding="utf-8")


@cache
def component(name: str) -> Any:
    """The component of `<name>.js` and `<name>.css`, mounted in an element of the class `<name>` with hyphens."""
    js, css = ((_HERE / f"{name}{ending}").read_text(encoding="utf-8") for ending in (".js", ".css"))
    html = f'<div class="{name.replace("_", "-")}"></div>'
    return st.components.v2.component(f"misstep.{name}", html=html, css=css, js=_SHARED + js, isolate_styles=False)
