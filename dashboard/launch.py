"""How the dashboard is started: the command line and the environment of its process."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent


def command(port: int = 8501, address: str = "127.0.0.1") -> list[str]:
    """The command that serves the dashboard on `address:port`; run it with `environment()`."""
    options = {
        "server.port": port,
        "server.address": address,
        "server.headless": "true",
        "logger.hideWelcomeMessage": "true",  # whoever starts it says where it is
    }
    script = str(HERE / "app.py")
    return [sys.executable, "-m", "streamlit", "run", script, *(f"--{name}={value}" for name, value in options.items())]


def environment(
    environ: Mapping[str, str], collector: str = "", token: str = "", trace: str = "", dimensions: Iterable[str] = ()
) -> dict[str, str]:
    """`environ` with the dashboard's settings; what is empty here stays as the environment has it.

    `collector` is the query API's address, `token` what it is asked with, `trace` a tracing system's link
    template, `dimensions` columns of the user's own.
    """
    given = {
        "MISSTEP_COLLECTOR_URL": collector, "MISSTEP_QUERY_TOKEN": token, "MISSTEP_TRACE_URL": trace,
        "MISSTEP_DIMENSIONS": ",".join(dimensions),
    }  # fmt: skip
    search = [str(HERE.parent), environ.get("PYTHONPATH", "")]
    python_path = {"PYTHONPATH": ":".join(part for part in search if part)}
    return {**environ, **python_path, **{name: value for name, value in given.items() if value}}
