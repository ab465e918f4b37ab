"""The collector, and the commands of `misstep`."""

import sys

# In the process that goes on, structlog would load rich for tracebacks that it does not write: 3 MiB.
if sys.orig_argv[-1:] == ["collector.app"]:
    sys.modules["rich"] = None  # type: ignore[assignment]
