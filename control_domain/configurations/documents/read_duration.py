"""Read durations of a configuration document: `90s`, `30m`, `2h`, `1d`."""

from collections.abc import Callable

from control_domain.configurations.documents.read_settings import Read, apply_rule
from control_domain.documents.field import Field
from pipeline_contracts.durations import BadDuration, format_duration, parse_duration

_LONGEST_DURATION = 20
_NO_DURATION = "must be a duration, like 90s, 30m, 2h or 1d"


def read_duration(check: Callable[[int], int]) -> Read:
    """Return the reader of a duration whose seconds `check` returns or refuses with `ValueError`."""

    def read(field: Field) -> str | None:
        seconds = _read_seconds(field)
        allowed = None if seconds is None else apply_rule(field, check, seconds)
        return None if allowed is None else format_duration(allowed)

    return read


def _read_seconds(field: Field) -> int | None:
    """Read a duration; numbers without a unit are refused."""
    if isinstance(field.node.value, int | float):
        field.refuse(_NO_DURATION)
        return None
    text = field.text(_LONGEST_DURATION)
    if text is None:
        return None
    try:
        if not text.isdigit():
            return parse_duration(text)
    except BadDuration:
        pass
    field.refuse(_NO_DURATION)
    return None
