"""How the dashboard is started: the command line and the environment of its process."""

import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = (sys.executable, "-P", "-m")  # no module of ours or of a library comes from the folder that it is started in

SIGN_IN = "MISSTEP_SIGN_IN"  # set for the dashboard's process if sign-in was on when it was started


def command(port: int = 8501, address: str = "127.0.0.1") -> list[str]:
    """The command that serves the dashboard on `address:port`; run it with `environment()`."""
    options = {
        "server.port": port,
        "server.address": address,
        "server.headless": "true",
        "logger.hideWelcomeMessage": "true",  # the caller prints the address
    }
    script = str(HERE / "app.py")
    given = (f"--{name}={value}" for name, value in options.items())
    return [*PYTHON, "streamlit", "run", script, *given]


def signs_in(folders: Iterable[str] = (".", "~")) -> bool:
    """Whether a Streamlit secrets.toml in one of these folders turns sign-in on.

    Raises OSError if one of them cannot be read: it may be the one that does.
    """
    found = [_secrets(Path(os.path.expanduser(folder))) for folder in folders]
    return any("auth" in secrets for secrets in found)


def _secrets(folder: Path) -> Mapping[str, object]:
    path = folder / ".streamlit/secrets.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OSError(f"{path} cannot be read, so whether people sign in is not known: {reason}") from None


def environment(
    environ: Mapping[str, str],
    collector: str = "",
    token: str = "",
    trace: str = "",
    dimensions: Iterable[str] = (),
    otlp: str = "",
    hosts: Iterable[str] = (),
) -> dict[str, str]:
    """`environ` with the dashboard's settings; empty ones leave the environment as it is.

    `collector` is the address of the query API, `token` the query token, `trace` the link template of a tracing
    system, `dimensions` the user's own columns, `otlp` the address that agents send to, if not `collector`, `hosts`
    further names by which people open the dashboard.
    """
    given = {
        "MISSTEP_COLLECTOR_URL": collector, "MISSTEP_QUERY_TOKEN": token, "MISSTEP_TRACE_URL": trace,
        "MISSTEP_DIMENSIONS": ",".join(dimensions), "MISSTEP_OTLP_URL": otlp,
        "MISSTEP_ALLOWED_HOSTS": ",".join(hosts), SIGN_IN: "true" if signs_in() else "",
    }  # fmt: skip
    search = [str(HERE.parent), environ.get("PYTHONPATH", "")]
    python_path = {"PYTHONPATH": ":".join(part for part in search if part)}
    return {**environ, **python_path, **{name: value for name, value in given.items() if value}}


def listed(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """The words in a variable that has several, as `environment` writes them."""
    return tuple(word.strip() for word in environ.get(variable, "").split(",") if word.strip())
