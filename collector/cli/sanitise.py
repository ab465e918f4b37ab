"""The commands `misstep sanitise …`: check and apply the rules that remove secrets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from collector.cli.options import sanitiser_from, settings_from
from collector.plural import plural
from collector.streams import in_utf8
from collector.visible import say

sanitise_app = App(name="sanitise", help="Check and apply the rules that remove secrets.")


@sanitise_app.command(name="filter")
def sanitise_filter() -> int:
    """Read JSON values from standard input, one per line; write them without secrets, in the same order."""
    from collector.commands.sanitise import filter_lines

    in_utf8()
    for line in filter_lines(sys.stdin, sanitiser_from(settings_from())):
        print(line, flush=True)
    return 0


@sanitise_app.command(name="check")
def sanitise_check(file: Annotated[Path, Parameter(help="A text file.")]) -> int:
    """Report what would be removed from a file and by which rule, without printing it."""
    from collector.commands.sanitise import check_lines

    with file.open(encoding="utf-8", errors="replace") as lines:
        found = list(check_lines(lines, sanitiser_from(settings_from())))
    for cut in found:
        say(f"{file}:{cut.line}:{cut.column}: {cut.rule}: {cut.title}, {plural(cut.length, 'character')}")
    say(f"{file}: {plural(len(found), 'place')} would be cut" if found else f"{file}: nothing would be cut")
    return 1 if found else 0


@sanitise_app.command(name="fingerprint")
def sanitise_fingerprint() -> int:
    """Read a secret from standard input; print the hash in its redaction marks, by which stored events are found."""
    from collector.hash_key import hash_key, key_file
    from collector.sanitise.sanitise import fingerprint

    settings = settings_from()
    key = key_file(settings)
    if not settings.hash_key and not (key and key.exists()):
        raise OSError(f"there is no key at {key}, by which marks were made: name their store with MISSTEP_STORE")
    secret = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not secret:
        raise OSError("no secret came from standard input")
    say(fingerprint(hash_key(settings), secret))
    return 0


@sanitise_app.command(name="apply")
def sanitise_apply() -> int:
    """Apply the present rules to everything that is stored, and rewrite the store without what they remove.

    The store is MISSTEP_STORE, by default duckdb:///data/misstep.duckdb. The
    collector that has it open, at MISSTEP_COLLECTOR_URL, does the work if it runs.
    """
    from collector.commands.apply import apply

    done = apply(settings_from())
    for rule, count in done.get("redactions", {}).items():
        say(f"{rule}: {count}")
    say(f"{plural(done['changed'], 'row')} changed")
    if done["state"] == "failed":
        say("misstep: it failed; the collector's log says why. The changes so far are kept.", file=sys.stderr)
    return 1 if done["state"] == "failed" else 0
