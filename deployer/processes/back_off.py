"""How long to wait before a process that ended is started again."""

STEADY_SECONDS = 60.0
"""A process that ran so long was well: what came before is forgotten."""

_FIRST_SECONDS = 0.1
_SECOND_SECONDS = 1.0
_MOST_SECONDS = 60.0


def delay_before_restart(short_runs: int) -> float:
    """In seconds, after so many runs in a row that were not steady; one that was steady counts as the first of them."""
    if short_runs <= 1:
        return _FIRST_SECONDS
    # The exponent is bounded as well: a number of a million digits is no delay.
    return min(_SECOND_SECONDS * 2.0 ** min(short_runs - 2, 10), _MOST_SECONDS)
