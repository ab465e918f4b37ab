"""Sign-in with an OpenID Connect provider through Streamlit, if its secrets.toml has an [auth] section."""

import os

import streamlit as st

from dashboard import launch
from dashboard.access import grants, people
from dashboard.parts import words


def passed() -> bool:
    """Whether pages may be shown; if not, shows a sign-in button for each provider."""
    if not wanted():
        return True
    able = _readable() and "auth" in st.secrets
    if able and (claims := people.claimed()) and not people.stale(claims):
        return _granted()
    st.title("Misstep", anchor=False)
    if able:
        for name in launch.providers(st.secrets["auth"]):
            label, given = (f"Sign in with {name}", (name,)) if name else ("Sign in", ())
            st.button(label, key=f"sign-in{name}", type="primary", on_click=st.login, args=given)
    else:
        st.warning(
            "Sign-in is not available: secrets.toml, in which it is set up, is missing, lacks [auth] or cannot be read."
        )
    return False


def _granted() -> bool:
    """Whether the person may see anything; says so if not."""
    try:
        people.person()
    except grants.NotGranted as who:
        st.title("Misstep", anchor=False)
        st.warning(f"{words.plain(str(who))} is signed in, and none of their groups may see anything here.")
        st.button("Sign out", key="sign-out-not-granted", on_click=st.logout)
        return False
    return True


def wanted() -> bool:
    """Whether sign-in is on: it was at the start, or is now. Nothing turns it off again."""
    return AT_START or _asked_for()


def _asked_for() -> bool:
    """Whether Streamlit's secrets ask for sign-in; those that are there and cannot be read may do so."""
    if _readable():
        return "auth" in st.secrets
    return any(map(os.path.exists, st.get_option("secrets.files")))


def _readable() -> bool:
    try:
        return st.secrets.load_if_toml_exists()
    except (OSError, ValueError):  # not permitted, or not UTF-8
        return False


AT_START = bool(os.environ.get(launch.SIGN_IN)) or _asked_for()
