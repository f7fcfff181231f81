"""Body memory budgets: the bytes of request bodies that an edge may hold at a time, by kind of traffic and by
sender."""

from dataclasses import dataclass

from ingest_edge.limits import Limits
from pipeline_contracts.errors import Unavailable


class BodyBudget:
    """The budget of one kind of traffic, with a share that one sender cannot exceed.

    Only bytes in memory count, never the length that a sender has declared.
    """

    __slots__ = ("_limit", "_share", "_held", "bytes")

    def __init__(self, limit: int, share: int) -> None:
        self._limit = limit
        self._share = share
        self._held: dict[str, int] = {}
        self.bytes = 0

    def lease(self, sender: str) -> "BodyLease":
        """Return an empty lease for one request. `sender` is an account or a client address."""
        return BodyLease(self, sender)

    def add(self, sender: str, size: int, own: int) -> None:
        """Count `size` more bytes of a request that already has `own` bytes. Raises `Unavailable`.

        A sender's or the edge's only request is never refused: `Limits` bounds its size.
        """
        held = self._held.get(sender, 0)
        if held > own and held + size > self._share:
            raise Unavailable(
                "Too much data of this sender is in flight. Send the same request again, with fewer requests at once."
            )
        if self.bytes > own and self.bytes + size > self._limit:
            raise Unavailable("The edge is at its limit of data in flight. Send the same request again.")
        self._held[sender] = held + size
        self.bytes += size

    def subtract(self, sender: str, size: int) -> None:
        """Release counted bytes. A sender without bytes is removed."""
        self.bytes -= size
        remaining = self._held.get(sender, 0) - size
        if remaining:
            self._held[sender] = remaining
        else:
            self._held.pop(sender, None)


class BodyLease:
    """The bytes of a budget that one request uses. The handler releases them in `finally`."""

    __slots__ = ("_budget", "_sender", "_bytes")

    def __init__(self, budget: BodyBudget, sender: str) -> None:
        self._budget = budget
        self._sender = sender
        self._bytes = 0

    def take(self, size: int) -> None:
        """Count bytes that have arrived or were decompressed. Raises `Unavailable`."""
        self._budget.add(self._sender, size, self._bytes)
        self._bytes += size

    def release(self, size: int | None = None) -> None:
        """Release `size` bytes, or all."""
        size = self._bytes if size is None else size
        self._budget.subtract(self._sender, size)
        self._bytes -= size


@dataclass(frozen=True, slots=True)
class BodyBudgets:
    """One budget for each kind of traffic: one kind cannot use up the memory of another."""

    telemetry: BodyBudget
    """Ingest and OTLP, with a share for each account."""
    monitors: BodyBudget
    """Heartbeats and queues, with a share for each account."""
    collect: BodyBudget
    """Page views, which anybody may send, with a share for each client address."""

    @classmethod
    def from_limits(cls, limits: Limits) -> "BodyBudgets":
        return cls(
            telemetry=BodyBudget(limits.in_flight_bytes, limits.account_in_flight_bytes),
            monitors=BodyBudget(limits.monitor_in_flight_bytes, limits.monitor_in_flight_bytes // 2),
            collect=BodyBudget(limits.collect_in_flight_bytes, limits.address_in_flight_bytes),
        )

    @property
    def bytes(self) -> int:
        """Bytes of all bodies in flight."""
        return self.telemetry.bytes + self.monitors.bytes + self.collect.bytes
