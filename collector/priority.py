"""Lower priority for threads that no client waits for."""

from __future__ import annotations

import os
import sys
import threading

STORING, KEEPING = 5, 10  # added niceness: the keeper gives way to the writer, both to everything else


def step_back(niceness: int) -> None:
    """Raises the niceness of the calling thread, where the system has one per thread."""
    if sys.platform == "linux":  # elsewhere niceness is the whole process's
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)
