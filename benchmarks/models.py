"""CPU time that finding the models of tool calls takes, for each event: `python -m benchmarks.models`.

All sessions of a made-up month are found anew, once with no model known, so that nearly every row of a call is
written, and once with all known, so that none is.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from collector.commands.bulk import bulk
from collector.engine.duckdb.derive import forget, model_calls
from collector.engine.duckdb.store import Store

EVENTS = 200_000
SESSIONS = 2_000  # in one transaction, as the keeper takes them
UNKNOWN = "update events set model = null, model_from = null, asked_by = null where operation = 'tool'"


def main() -> None:
    """Prints microseconds for each event, with writing and without."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"duckdb:///{Path(folder) / 'models.duckdb'}"
        bulk(url, EVENTS, 7)
        store = Store.open(url)
        for known in (False, True):
            with store.transaction() as cursor:
                if not known:
                    cursor.execute(UNKNOWN)
                forget(cursor)
                left = cursor.execute("select count(*) from (select distinct service, session from changed)").fetchall()
            began = time.process_time()
            with store._cursor(600) as cursor:
                for _ in range(-(-left[0][0] // SESSIONS)):
                    model_calls(cursor, SESSIONS, None)
            took = time.process_time() - began
            print(f"{'none written' if known else 'all written'}: {took / EVENTS * 1e6:.2f} µs an event")
        store.close()


if __name__ == "__main__":
    main()
