"""Describes how a process ended."""

import signal

_COUNTERS = "/proc/vmstat"
_OOM_KILLS = b"oom_kill "
# The status that a shell reports for a command that SIGKILL ended.
_KILLED = 128 + signal.SIGKILL


def describe_exit(status: int | None) -> str:
    """Return a predicate ("ended with status 3"). `status` is from `RunningProcess.wait`: negative for a signal, None
    if unknown."""
    if status is None:
        return "ended with an unknown status"
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"was ended by signal {-status}"
    return f"was ended by signal {-status} ({name})"


def describe_unexpected_exit(status: int | None, oom_kills: int) -> str:
    """Describe the end of a process that Pharos did not end. `oom_kills`: how many processes on the machine the
    kernel has killed at about the same time because memory ran out."""
    if status not in (-signal.SIGKILL, _KILLED):
        return describe_exit(status)
    cause = "out of memory" if oom_kills > 0 else "SIGKILL, perhaps out of memory"
    return f"ended with exit status {_KILLED} ({cause})"


def count_oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since the machine started, in any cgroup. 0
    if the kernel does not count them (before 4.13)."""
    try:
        with open(_COUNTERS, "rb") as file:
            for line in file:
                if line.startswith(_OOM_KILLS):
                    return int(line.removeprefix(_OOM_KILLS))
    except OSError:
        pass
    return 0
