"""How the dashboard is started: the command line and the environment of its process."""

import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dashboard.access import grants

HERE = Path(__file__).parent
PYTHON = (sys.executable, "-P", "-m")  # no module of ours or of a library comes from the folder that it is started in

FOLDERS = (".", "~")  # where Streamlit looks for .streamlit/secrets.toml; the first counts
COMMON, OWN = ("redirect_uri", "cookie_secret"), ("client_id", "client_secret", "server_metadata_url")
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


def signs_in(folders: Iterable[str] = FOLDERS) -> bool:
    """Whether a Streamlit secrets.toml in one of these folders turns sign-in on.

    Raises OSError if one of them cannot be read: it may be the one that does.
    """
    return _section(folders) is not None


def sign_in_works(folders: Iterable[str] = FOLDERS) -> bool:
    """As `signs_in`. Raises OSError also if it is on, and nobody could sign in."""
    section = _section(folders)
    if section is None:
        return False
    if find_spec("authlib") is None:
        raise OSError("nobody could sign in: install Authlib 1.3.2 or newer into Misstep's environment")
    found = providers(section)
    needed = [(section, "[auth]", COMMON), *((at, place, OWN) for place, at in found.values())]
    for at, place, keys in needed:
        if missing := [key for key in keys if not at.get(key)]:
            raise OSError(f"nobody could sign in: {place} of .streamlit/secrets.toml lacks {', '.join(missing)}")
    if wrong := [name for name in found if "_" in name]:
        raise OSError(f"nobody could sign in: Streamlit takes no provider with a _ in its name, such as {wrong[0]!r}")
    if mistakes := _group_mistakes(folders):
        raise OSError(mistakes[0])
    return True


def _group_mistakes(folders: Iterable[str]) -> list[str]:
    section = _section(folders, "misstep") or {}
    groups = section.get("groups", {})
    if not isinstance(groups, Mapping):
        return ["[misstep.groups] of .streamlit/secrets.toml: write a section for each group"]
    return [said for name, row in groups.items() if (said := grants.mistake(name, row))]


def providers(section: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The providers of an [auth] section by name, each with where it is set up; "" is the one without a name."""
    named = {
        name: (f"[auth.{name}]", each)
        for name, each in section.items()
        if isinstance(each, Mapping) and name != "client_kwargs"
    }
    return named if named and not any(key in section for key in OWN) else {"": ("[auth]", section), **named}


def _section(folders: Iterable[str], name: str = "auth") -> Mapping[str, Any] | None:
    found = [_secrets(Path(os.path.expanduser(folder))) for folder in folders]
    section = next((secrets[name] for secrets in found if name in secrets), None)
    return section if section is None or isinstance(section, Mapping) else {}


def _secrets(folder: Path) -> Mapping[str, Any]:
    path = folder / ".streamlit/secrets.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OSError(
            f"{path} cannot be read, so whether people sign in is not known: {reason}; mend it, let this user read it, "
            "or set HOME to a folder of its own"
        ) from None


def environment(
    environ: Mapping[str, str],
    collector: str = "",
    token: str = "",
    trace: str = "",
    dimensions: Iterable[str] = (),
    otlp: str = "",
    hosts: Iterable[str] = (),
    alerts: str = "",
) -> dict[str, str]:
    """`environ` with the dashboard's settings; empty ones leave the environment as it is. Raises OSError as `signs_in`.

    `collector` is the address of the query API, `token` the query token, `trace` the link template of a tracing
    system, `dimensions` the user's own columns, `otlp` the address that agents send to, if not `collector`, `hosts`
    further names by which people open the dashboard, `alerts` the token that changes rules.
    """
    given = {
        "MISSTEP_COLLECTOR_URL": collector, "MISSTEP_QUERY_TOKEN": token, "MISSTEP_TRACE_URL": trace,
        "MISSTEP_DIMENSIONS": ",".join(dimensions), "MISSTEP_OTLP_URL": otlp,
        "MISSTEP_ALLOWED_HOSTS": ",".join(hosts), "MISSTEP_ALERTS_TOKEN": alerts, SIGN_IN: "true" if signs_in() else "",
    }  # fmt: skip
    search = [str(HERE.parent), environ.get("PYTHONPATH", "")]
    python_path = {"PYTHONPATH": ":".join(part for part in search if part)}
    return {**environ, **python_path, **{name: value for name, value in given.items() if value}}


def listed(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """The words in a variable that has several, as `environment` writes them."""
    return tuple(word.strip() for word in environ.get(variable, "").split(",") if word.strip())
