"""Allows a command the processes of its own beside those that its user runs already. Standard library only.

The kernel compares the count of the whole user with the limit of the process that asks. A release that fills its limit
would leave no place for the one that is to take its place: both run as the application's user.
"""

from __future__ import annotations

import os

_MOST_TIMES = 8
_THREADS = b"\nThreads:"


def processes_allowed(uid: int, limit: int) -> int:
    """Return the limit to give a command of the user: its own on top of what runs, at most eight times its own."""
    most = _MOST_TIMES * limit
    running = _count_threads(uid, most - limit)
    # One that forks and ends in turn may take its whole limit after the count.
    return min(max(running, limit) + limit, most) if running else limit


def _count_threads(uid: int, enough: int) -> int:
    """Count as the kernel does, for which threads are processes too; no further than what is enough."""
    count = 0
    with os.scandir("/proc") as found:
        for each in found:
            if not each.name.isdigit():
                continue
            try:
                if each.stat().st_uid == uid:
                    count += _threads(each.path)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if count >= enough:
                break
    return count


def _threads(folder: str) -> int:
    with open(f"{folder}/status", "rb") as file:
        told = file.read().partition(_THREADS)[2].split(None, 1)
    return int(told[0]) if told else 1
