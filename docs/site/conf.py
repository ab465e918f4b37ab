"""Sphinx's settings for the site: what prepare.py laid out becomes HTML."""

from __future__ import annotations

project = "Misstep"
html_title = "Misstep"
html_show_copyright = False  # the licence is in the README
html_theme = "furo"  # light and dark, no fonts or scripts from elsewhere
default_role = "code"  # of docstrings
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["conf.py"]
html_static_path = ["static"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
