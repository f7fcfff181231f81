"""How many requests an account, or an address that has proved nothing, may make: at once and per second.

An account is known by its token only once the database has confirmed the token. Until then a request counts towards the
client's address, so that invented tokens get nobody a limit of their own. Once the database no longer confirms a token
(revoked, expired, replaced), its requests count towards the address again, those in flight too.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from control_api.limits.fair_queue import FairQueue, QueueFull, QueueLimits, WaitedTooLong
from control_api.limits.token_buckets import MOST_REMEMBERED, TokenBuckets
from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.settings import Settings

# A process runs so many at once in all, and has so many waiting; each caller's share is a setting.
_RUNNING = 256
_WAITING = 4096
# Per request that may run: a burst of parallel requests waits, and is not refused.
_WAITING_FOR_EACH_RUNNING = 8
_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """The limits of a process."""

    account: RateLimit = RateLimit(200.0, 2000)
    address: RateLimit = RateLimit(100.0, 1000)
    at_once: int = 32

    @classmethod
    def from_settings(cls, settings: Settings) -> "RequestBounds":
        return cls(
            RateLimit(settings.account_request_rate, settings.account_request_burst),
            RateLimit(settings.address_request_rate, settings.address_request_burst),
            settings.max_requests_at_once,
        )


@dataclass(eq=False, slots=True)
class Admission:
    """A request that runs."""

    key: str
    """What it counts towards now."""
    address_key: str
    digest: bytes | None
    """Of its credential, if it counted towards the owner when it began."""


class RequestLimits:
    """The present state of all callers of a process."""

    def __init__(self, bounds: RequestBounds, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        waiting = _WAITING_FOR_EACH_RUNNING * bounds.at_once
        self._queue = FairQueue(
            QueueLimits(_RUNNING, bounds.at_once, _WAITING, waiting, _WAIT_SECONDS, reserve=_RUNNING)
        )
        self._owners: OrderedDict[bytes, str] = OrderedDict()
        self._buckets = TokenBuckets(monotonic)
        # Those that count towards an owner.
        self._in_flight: defaultdict[bytes | None, set[Admission]] = defaultdict(set)

    def remember(self, digest: bytes, owner: str) -> None:
        """Note that the database knows a credential by its digest: its next requests count towards `owner`."""
        self._owners[digest] = owner
        self._owners.move_to_end(digest)
        if len(self._owners) > MOST_REMEMBERED:
            self._owners.popitem(last=False)

    def forget(self, digest: bytes) -> None:
        """Note that the database does not know a credential: its requests count towards the client's address, so that
        whoever has a revoked credential uses up nothing of its former owner's limits."""
        self._owners.pop(digest, None)
        for admission in self._in_flight.pop(digest, ()):
            self._count_towards_address(admission)

    async def enter(self, digest: bytes | None, address: str) -> Admission:
        """Wait until a request may run; `leave` ends it. Raises `TooManyRequests`."""
        owner = None if digest is None else self._owners.get(digest)
        address_key = f"address {address}"
        key = owner or address_key
        self._take(key, self._bounds.account if owner else self._bounds.address)
        try:
            await self._queue.enter(key)
        except WaitedTooLong as error:
            raise TooManyRequests(
                f"The request has waited for {_WAIT_SECONDS:g} s while others ran. Send the same request again.",
                headers={"Retry-After": "1"},
            ) from error
        except QueueFull as error:
            raise TooManyRequests(
                f"More than {self._bounds.at_once} requests run at once, and too many more wait. "
                "Send the same request again, with fewer at once.",
                headers={"Retry-After": "1"},
            ) from error
        admission = Admission(key, address_key, digest if owner else None)
        if admission.digest is not None:
            if self._owners.get(admission.digest) == owner:
                self._in_flight[admission.digest].add(admission)
            else:
                # Forgotten while the request waited.
                self._count_towards_address(admission)
        return admission

    def leave(self, admission: Admission) -> None:
        """End a request."""
        if admission.digest in self._in_flight:
            in_flight = self._in_flight[admission.digest]
            in_flight.discard(admission)
            if not in_flight:
                del self._in_flight[admission.digest]
        self._queue.leave(admission.key)

    def _count_towards_address(self, admission: Admission) -> None:
        self._queue.move(admission.key, admission.address_key)
        admission.key = admission.address_key

    def _take(self, key: str, limit: RateLimit) -> None:
        again = self._buckets.take(key, limit)
        if again is not None:
            raise TooManyRequests(
                f"{'The address' if key.startswith('address ') else 'The account'} may send {limit.rate:g} requests a "
                f"second, {limit.burst} at once. Send the same request again in {again} s.",
                headers={"Retry-After": str(again)},
            )
