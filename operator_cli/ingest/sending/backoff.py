"""Waits between retries: as long as the server asks, else exponentially longer."""

import asyncio
import email.utils
import random
import time
from collections.abc import Callable

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.report import Report

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 30.0
# The longest `Retry-After` that is honoured.
_LONGEST_RETRY_AFTER = 300.0


class Backoff:
    """Shared by all requests in flight: a failure delays all of them.

    `give_up_after`: seconds without any success until `CommandFailed`; None means never.
    """

    def __init__(
        self,
        report: Report,
        give_up_after: float | None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._report = report
        self._give_up_after = give_up_after
        self._clock = clock
        self._rng = rng or random.Random()
        self._until = 0.0
        self._failures = 0
        self._failing_since: float | None = None

    async def wait(self) -> None:
        """Return when a request may be sent, with jitter so that not all are sent at once."""
        left = self._until - self._clock()
        while left > 0:
            await asyncio.sleep(left + self._rng.random() * min(left, 1.0) / 4)
            left = self._until - self._clock()

    def record_success(self) -> None:
        """Reset the backoff: the server accepted a request."""
        self._failures = 0
        self._failing_since = None

    def record_failure(self, reason: str, retry_after: float | None) -> None:
        """Delay the next requests after a transient failure, by `retry_after` seconds if the server sent that.

        Raises `CommandFailed` if requests have failed for longer than `give_up_after`.
        """
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        if self._give_up_after is not None and now - self._failing_since >= self._give_up_after:
            raise CommandFailed(
                f"Gave up after {self._give_up_after:g} s: {reason}. Run the same command again to continue."
            )
        if retry_after:
            wait = min(retry_after, _LONGEST_RETRY_AFTER)
        elif now < self._until:
            # This request was sent before the failure that set the current delay.
            return
        else:
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self._failures, 16))
            wait *= self._rng.uniform(0.5, 1.0)
            self._failures += 1
        if now + wait > self._until:
            self._until = now + wait
            self._report.print_throttled(reason, f"{reason}; trying again in {wait:.1f} s")


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Return the seconds to wait from a number of seconds or an HTTP date (RFC 9110, 10.2.3), None for other text.

    `now` is in seconds since 1970.
    """
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except ValueError:
        return None
