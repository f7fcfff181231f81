"""When to try again: as the server asks, else later and later."""

import asyncio
import email.utils
import random
import time
from collections.abc import Callable

from operator_cli.failure import CommandFailed
from operator_cli.sending.report import Report

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 30.0
# A server that asks for more is asked again after this.
_LONGEST_OBEYED = 300.0


class Patience:
    """Shared by all requests in flight: one that fails holds back the others too.

    `give_up_after`: seconds without any success until `CommandFailed`; None: never.
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

    async def wait_turn(self) -> None:
        """Returns when a request may be sent. Each waits a little differently, so that not all come at once."""
        left = self._until - self._clock()
        while left > 0:
            await asyncio.sleep(left + self._rng.random() * min(left, 1.0) / 4)
            left = self._until - self._clock()

    def succeed(self) -> None:
        """The server has taken something."""
        self._failures = 0
        self._failing_since = None

    def fail(self, reason: str, retry_after: float | None) -> None:
        """A request failed and is to be sent again, after `retry_after` seconds if the server said so.

        Raises `CommandFailed` when that went on for too long.
        """
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        if self._give_up_after is not None and now - self._failing_since >= self._give_up_after:
            raise CommandFailed(
                f"Gave up after {self._give_up_after:g} s: {reason}. Run the same command again to go on."
            )
        if retry_after:
            wait = min(retry_after, _LONGEST_OBEYED)
        elif now < self._until:
            # Sent before the others failed: says nothing new.
            return
        else:
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self._failures, 16))
            wait *= self._rng.uniform(0.5, 1.0)
            self._failures += 1
        if now + wait > self._until:
            self._until = now + wait
            self._report.note_now_and_then(reason, f"{reason}; trying again in {wait:.1f} s")


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait, of a number of seconds or an HTTP date (RFC 9110, 10.2.3); None if it is neither.

    `now` is in seconds after 1970.
    """
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except ValueError:
        return None
