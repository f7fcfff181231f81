"""Limits of webhook deliveries: invalid ones by network, and valid ones by account."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from control_api.limits.token_buckets import MAX_REMEMBERED, TokenBuckets
from pipeline_contracts.errors import TooManyRequests, Unavailable
from pipeline_contracts.rate_limits import RateLimit

_MAX_FAILING = 4096
"""Networks whose failures are remembered; the least recent ones are forgotten."""
_MAX_NETWORKS = 64
"""Verified networks of one webhook: a sender with its secret can only displace networks of the same webhook."""
_MAX_VERIFIED = 65_536
"""Verified networks of all webhooks."""
_VERIFIED_SECONDS = 86_400.0
_MAX_FAILURES = 100
"""Deliveries without a valid signature in a burst; then one a second."""

DELIVERIES = RateLimit(5.0, 1000)
"""Limit of one account. A host sends a delivery for each push and each change of a pull request."""
_TRIM_BYTES = 16 * 2**20
"""Bytes that a webhook may deliver before its stored bodies are trimmed again."""

_Key = tuple[str, str]


class WebhookSenders:
    """Remembers, in memory, which networks have sent each webhook valid and invalid signatures."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # The time of the last valid signature, by webhook and network; least recent first.
        self._verified: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        self._verified_count = 0
        # The number of failures that are still allowed, and the time of that number.
        self._failing: OrderedDict[_Key, tuple[float, float]] = OrderedDict()

    def is_verified(self, hook: str, network: str) -> bool:
        """True if a delivery from this network had a valid signature in the last 24 hours."""
        networks = self._verified.get(hook)
        at = None if networks is None else networks.get(network)
        return at is not None and self._clock() - at < _VERIFIED_SECONDS

    def record_valid(self, hook: str, network: str) -> None:
        """Record a delivery with a valid signature."""
        self._failing.pop((hook, network), None)
        networks = self._verified.setdefault(hook, OrderedDict())
        self._verified.move_to_end(hook)
        self._verified_count += network not in networks
        networks[network] = self._clock()
        networks.move_to_end(network)
        if len(networks) > _MAX_NETWORKS:
            self._forget_oldest(hook)
        elif self._verified_count > _MAX_VERIFIED:
            # A webhook displaces a network of another webhook only for its first network.
            self._forget_oldest(hook if len(networks) > 1 else next(iter(self._verified)))

    def _forget_oldest(self, hook: str) -> None:
        networks = self._verified[hook]
        networks.popitem(last=False)
        self._verified_count -= 1
        if not networks:
            del self._verified[hook]

    @contextmanager
    def attempt(
        self, hook: str, network: str, failures: tuple[type[Exception], ...], *, is_exempt: bool
    ) -> Iterator[None]:
        """Count a failure before work on a delivery begins, and undo the count unless the work raises one of
        `failures`. So concurrent deliveries cannot exceed the limit.

        Raises `Unavailable` for a network that has failed too often and is not exempt.
        """
        if not is_exempt:
            self.check_failures(hook, network)
        self.record_failure(hook, network)
        try:
            yield
        except failures:
            raise
        except BaseException:
            self._undo_failure(hook, network)
            raise
        self._undo_failure(hook, network)

    def record_failure(self, hook: str, network: str) -> None:
        """Record a delivery without a valid signature, or with an incomplete body."""
        self._failing[hook, network] = (max(self._failures_left(hook, network) - 1, 0.0), self._clock())
        self._failing.move_to_end((hook, network))
        if len(self._failing) > _MAX_FAILING:
            self._failing.popitem(last=False)

    def _undo_failure(self, hook: str, network: str) -> None:
        # A valid signature resets all failures.
        if (hook, network) in self._failing:
            left = min(self._failures_left(hook, network) + 1, float(_MAX_FAILURES))
            self._failing[hook, network] = (left, self._clock())

    def check_failures(self, hook: str, network: str) -> None:
        """Raise `Unavailable` for a network that has failed too often. Call this before reading the body."""
        if self.is_verified(hook, network) or self._failures_left(hook, network) >= 1:
            return
        raise Unavailable(
            f"More than {_MAX_FAILURES} deliveries from {network} to {hook} had no valid signature. Set the webhook's "
            "secret on both sides, and deliver it again.",
            retry_after=_MAX_FAILURES,
        )

    def _failures_left(self, hook: str, network: str) -> float:
        left, at = self._failing.get((hook, network), (float(_MAX_FAILURES), self._clock()))
        return min(left + self._clock() - at, float(_MAX_FAILURES))


class AcceptedDeliveries:
    """Limits the rate of valid deliveries by account, and reports when the stored bodies of a webhook need
    trimming."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._buckets = TokenBuckets(clock)
        # The bytes of each webhook since its last trim.
        self._bytes: OrderedDict[str, int] = OrderedDict()

    def take(self, account: str) -> None:
        """Count a delivery with a valid signature. Raises `TooManyRequests`."""
        retry_seconds = self._buckets.take(account, DELIVERIES)
        if retry_seconds is not None:
            raise TooManyRequests(
                f"The webhooks of the account may deliver {DELIVERIES.rate:g} times a second, {DELIVERIES.burst} at "
                f"once. Deliver it again in {retry_seconds} s.",
                headers={"Retry-After": str(retry_seconds)},
            )

    def is_trim_due(self, hook: str, count: int) -> bool:
        """Count a body of `count` bytes before it is stored; return True if older bodies have to be trimmed first."""
        # A new process does not know the stored bodies: the first trim is due at once.
        total = self._bytes.pop(hook, _TRIM_BYTES) + count
        is_due = total > _TRIM_BYTES
        self._bytes[hook] = count if is_due else total
        if len(self._bytes) > MAX_REMEMBERED:
            self._bytes.popitem(last=False)
        return is_due
