"""Sign-in with an OpenID Connect provider through Streamlit, if its secrets.toml has an [auth] section."""

import streamlit as st


def passed() -> bool:
    """Whether pages may be shown; if not, shows the sign-in button."""
    if not wanted() or st.user.get("is_logged_in"):
        return True
    st.title("Misstep", anchor=False)
    st.button("Sign in", key="sign-in", type="primary", on_click=st.login)
    return False


def wanted() -> bool:
    """Whether sign-in is on."""
    return bool(st.secrets.load_if_toml_exists()) and "auth" in st.secrets
