"""The rate of requests of the demo shop by time of day and week, and the times of its two problems."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

SLICE_SECONDS = 10
"""Traffic is generated in slices of this length, each with a random generator of its own."""

_SECONDS_PER_DAY = 86_400
_MEAN_REQUESTS_A_SECOND = 0.2
_DAILY_AMPLITUDE = 0.62
_PEAK_HOUR = 15
# From Monday to Sunday.
_WEEKDAY_FACTORS = (1.05, 1.10, 1.09, 1.05, 0.97, 0.86, 0.90)

_PERIOD_SECONDS = 8 * 3600
# The problem begins before the demo does, so that the first page shows something.
_SLOW_DATABASE = (-20 * 60, 45 * 60)
_STUCK_IMAGES = (-40 * 60, 150 * 60)


@dataclass(frozen=True, slots=True)
class Troubles:
    """Two problems that return every eight hours: a slow database, and a queue with a stuck worker.

    `began_s` is when the demo was first started, in seconds since 1970.
    """

    began_s: int

    def is_database_slow(self, at_s: float) -> bool:
        return self._elapsed(at_s, _SLOW_DATABASE) is not None

    def seconds_of_stuck_images(self, at_s: float) -> float | None:
        """Return the seconds for which the queue of images has been stuck; None if it is not stuck."""
        return self._elapsed(at_s, _STUCK_IMAGES)

    def _elapsed(self, at_s: float, trouble: tuple[int, int]) -> float | None:
        offset, length = trouble
        since_first = at_s - self.began_s - offset
        elapsed = since_first % _PERIOD_SECONDS
        return elapsed if since_first >= 0 and elapsed < length else None


def expected_rate(at_s: float) -> float:
    """Return the requests a second at this time: a daily wave with its peak at 15:00 UTC, and a weekly rhythm."""
    of_day = at_s % _SECONDS_PER_DAY / _SECONDS_PER_DAY
    wave = 1 + _DAILY_AMPLITUDE * math.sin(2 * math.pi * (of_day - (_PEAK_HOUR - 6) / 24))
    weekday = datetime.fromtimestamp(at_s, UTC).weekday()
    return _MEAN_REQUESTS_A_SECOND * wave * _WEEKDAY_FACTORS[weekday]
