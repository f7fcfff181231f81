"""Limits of API requests for each account and each unauthenticated address: concurrent requests and requests a second.

A request counts towards an account only after the database has confirmed its token. Until then it counts towards the
client's address, so that invented tokens do not get limits of their own. Once the database no longer confirms a token
(revoked, expired, replaced), its requests count towards the address again, including those in flight.
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from control_api.limits.fair_queue import FairQueue, QueueFull, QueueLimits, QueueTimeout
from control_api.limits.token_buckets import MAX_REMEMBERED, TokenBuckets
from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.settings import Settings

# Limits of a whole process. The share of each caller is a setting.
_MAX_RUNNING = 256
_MAX_WAITING = 4096
# Waiting requests for each request that may run, so that a burst of parallel requests waits instead of being refused.
_MAX_WAITING_PER_RUNNING = 8
_MAX_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of a process: the rates of an account and of an address, and the number of concurrent requests of
    each."""

    account: RateLimit = RateLimit(200.0, 2000)
    address: RateLimit = RateLimit(100.0, 1000)
    max_concurrent: int = 32

    @classmethod
    def from_settings(cls, settings: Settings) -> "RequestLimits":
        return cls(
            RateLimit(settings.account_request_rate, settings.account_request_burst),
            RateLimit(settings.address_request_rate, settings.address_request_burst),
            settings.max_requests_at_once,
        )


@dataclass(eq=False, slots=True)
class Admission:
    """A request that was let in."""

    key: str
    """The account or address that the request counts towards now."""
    address_key: str
    digest: bytes | None
    """Digest of the credential if the request counted towards its owner when it was let in."""


class RequestLimiter:
    """Counts the requests of all callers of a process."""

    def __init__(self, limits: RequestLimits, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        max_waiting = _MAX_WAITING_PER_RUNNING * limits.max_concurrent
        self._queue = FairQueue(
            QueueLimits(
                _MAX_RUNNING,
                limits.max_concurrent,
                _MAX_WAITING,
                max_waiting,
                _MAX_WAIT_SECONDS,
                reserve=_MAX_RUNNING,
            )
        )
        self._owners: OrderedDict[bytes, str] = OrderedDict()
        self._buckets = TokenBuckets(monotonic)
        # Contains only requests that count towards the owner of their credential.
        self._in_flight: defaultdict[bytes | None, set[Admission]] = defaultdict(set)

    def remember_owner(self, digest: bytes, owner: str) -> None:
        """Count the next requests with this credential towards `owner`. Call this once the database has confirmed the
        credential."""
        self._owners[digest] = owner
        self._owners.move_to_end(digest)
        if len(self._owners) > MAX_REMEMBERED:
            self._owners.popitem(last=False)

    def forget_owner(self, digest: bytes) -> None:
        """Count the requests with this credential towards the client's address: someone with a revoked credential must
        not use up the limits of its former owner."""
        self._owners.pop(digest, None)
        for admission in self._in_flight.pop(digest, ()):
            self._count_towards_address(admission)

    async def admit(self, digest: bytes | None, address: str) -> Admission:
        """Wait until a request may run; call `release` at its end. Raises `TooManyRequests`."""
        owner = None if digest is None else self._owners.get(digest)
        address_key = f"address {address}"
        key = owner or address_key
        self._take_token(key, self._limits.account if owner else self._limits.address)
        try:
            await self._queue.acquire(key)
        except QueueTimeout as error:
            raise TooManyRequests(
                f"The request has waited for {_MAX_WAIT_SECONDS:g} s while others ran. Send the same request again.",
                headers={"Retry-After": "1"},
            ) from error
        except QueueFull as error:
            raise TooManyRequests(
                f"More than {self._limits.max_concurrent} requests run at once, and too many more wait. "
                "Send the same request again, with fewer requests at once.",
                headers={"Retry-After": "1"},
            ) from error
        admission = Admission(key, address_key, digest if owner else None)
        if admission.digest is not None:
            if self._owners.get(admission.digest) == owner:
                self._in_flight[admission.digest].add(admission)
            else:
                # The owner was forgotten while the request waited.
                self._count_towards_address(admission)
        return admission

    def release(self, admission: Admission) -> None:
        """End a request that was let in."""
        if admission.digest in self._in_flight:
            in_flight = self._in_flight[admission.digest]
            in_flight.discard(admission)
            if not in_flight:
                del self._in_flight[admission.digest]
        self._queue.release(admission.key)

    def _count_towards_address(self, admission: Admission) -> None:
        self._queue.move(admission.key, admission.address_key)
        admission.key = admission.address_key

    def _take_token(self, key: str, limit: RateLimit) -> None:
        retry_seconds = self._buckets.take(key, limit)
        if retry_seconds is not None:
            raise TooManyRequests(
                f"{'The address' if key.startswith('address ') else 'The account'} may send {limit.rate:g} requests a "
                f"second, {limit.burst} at once. Send the same request again in {retry_seconds} s.",
                headers={"Retry-After": str(retry_seconds)},
            )
