"""Sign-in with a provider of one's own, through Streamlit: on where its secrets.toml has an [auth] section."""

import streamlit as st


def passed() -> bool:
    """Whether the pages may be shown; if not, shows how to sign in."""
    if not wanted() or st.user.get("is_logged_in"):
        return True
    st.title("Misstep", anchor=False)
    st.button("Sign in", key="sign-in", type="primary", on_click=st.login)
    return False


def wanted() -> bool:
    """Whether anybody has to sign in."""
    return bool(st.secrets.load_if_toml_exists()) and "auth" in st.secrets
