"""Limits the correctly signed deliveries of an account, and decides when to trim its stored bodies."""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from control_api.limits.token_buckets import MOST_REMEMBERED, TokenBuckets
from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit

DELIVERIES = RateLimit(5.0, 1000)
"""Of an account. A host sends one for each push and each change of a pull request."""
_TRIM_BYTES = 16 * 2**20
"""So many bytes of a webhook may come before its kept bodies are looked at."""


class AcceptedDeliveries:
    """Counts the recent deliveries of accounts and webhooks to this process."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._buckets = TokenBuckets(clock)
        self._bytes: OrderedDict[str, int] = OrderedDict()

    def take(self, account: str) -> None:
        """Count a delivery with a valid signature. Raises `TooManyRequests`."""
        again = self._buckets.take(account, DELIVERIES)
        if again is not None:
            raise TooManyRequests(
                f"The webhooks of the account may deliver {DELIVERIES.rate:g} times a second, {DELIVERIES.burst} at "
                f"once. Deliver it again in {again} s.",
                headers={"Retry-After": str(again)},
            )

    def is_trim_due(self, hook: str, count: int) -> bool:
        """Count a body of `count` bytes before it is stored; return True if older bodies have to be trimmed first."""
        # A new process does not know the former bodies: the first trim is due at once.
        had = self._bytes.pop(hook, _TRIM_BYTES) + count
        is_due = had > _TRIM_BYTES
        self._bytes[hook] = count if is_due else had
        if len(self._bytes) > MOST_REMEMBERED:
            self._bytes.popitem(last=False)
        return is_due
