"""Bars of block characters."""

import math
from collections.abc import Sequence

_ACROSS = " ▏▎▍▌▋▊▉█"
_UPWARDS = " ▁▂▃▄▅▆▇█"
_STEPS = 8


def bar(value: float, most: float, width: int) -> str:
    """A bar from the left, `width` characters for `most`; what is more than nothing is seen."""
    if value <= 0 or most <= 0 or width <= 0:
        return ""
    eighths = max(1, round(min(value / most, 1) * width * _STEPS))
    whole, rest = divmod(eighths, _STEPS)
    return "█" * whole + (_ACROSS[rest] if rest else "")


def columns(values: Sequence[float], most: float, height: int, width: int) -> list[str]:
    """Lines from above to below, with a bar upwards for each value, `width` characters each. From a width of two on the
    last of these is a gap."""
    filled = [
        max(1, math.ceil(value / most * height * _STEPS)) if value > 0 < most else 0 for value in values
    ]
    gap = " " if width > 1 else ""
    lines = []
    for line in reversed(range(height)):
        steps = [min(_STEPS, max(0, eighths - line * _STEPS)) for eighths in filled]
        lines.append("".join(_UPWARDS[step] * (width - len(gap)) + gap for step in steps).rstrip())
    return lines
