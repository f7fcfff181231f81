"""How a process ended, in words."""

import signal


def describe_exit(status: int | None) -> str:
    """The end of a sentence. `status` is as of `RunningProcess.wait`: negative for a signal, None where unknown."""
    if status is None:
        return "ended, with a status that is not known"
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"was ended by signal {-status}"
    return f"was ended by signal {-status} ({name})"
