"""Sets the resource limits of a command. Standard library only.

The kernel compares the number of processes of the whole user with the limit of the process that forks. A release that
fills its limit would leave none for its successor, since both run as the application's user. So a command gets its
limit on top of the processes that its user already runs.
"""

from __future__ import annotations

import os
import resource

# See launcher.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_FACTOR = 8
_THREADS = b"\nThreads:"


def choose_limits(instruction: dict[str, Any]) -> dict[str, int]:
    """Return the instruction's limits, with the process limit adjusted to what the command's user already runs."""
    limits: dict[str, int] = instruction["limits"]
    if instruction["owner"] is None:
        return limits
    own = limits["processes"]
    # This runs before /proc of the new PID namespace is mounted, and before the init counts as a process.
    wanted = compute_process_limit(instruction["owner"][0], own)
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    # A root without CAP_SYS_RESOURCE cannot raise the hard limit.
    return {**limits, "processes": wanted if hard == resource.RLIM_INFINITY else max(own, min(wanted, hard))}


def apply_limits(limits: dict[str, int]) -> None:
    """Apply the limits to this process. A limit above the process's own hard limit is lowered to that."""
    values = {
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY and os.geteuid():
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def compute_process_limit(uid: int, limit: int) -> int:
    """Return the process limit for a command of the user: the number of processes that the user runs now, plus
    `limit`, at most eight times `limit`."""
    maximum = _MAX_FACTOR * limit
    running = _count_threads(uid, maximum - limit)
    # A program whose number of processes varies may use up its limit after this count.
    return min(max(running, limit) + limit, maximum) if running else limit


def _count_threads(uid: int, enough: int) -> int:
    """Count the user's threads: the kernel counts each thread as a process. Stop counting at `enough`."""
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
        fields = file.read().partition(_THREADS)[2].split(None, 1)
    return int(fields[0]) if fields else 1
