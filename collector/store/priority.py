"""Threads that nobody waits for, behind those that answer."""

from __future__ import annotations

import os
import sys
import threading

STORING, KEEPING = 5, 10  # niceness beyond the others': what was answered is stored before it is accounted for


def step_back(niceness: int) -> None:
    """Lets every thread with less niceness go before the calling one, where the system knows that of threads."""
    if sys.platform == "linux":  # elsewhere it would be the whole process's
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)
