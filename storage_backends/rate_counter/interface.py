"""The interface of the rate counter that all edges share."""

from typing import Protocol

from pipeline_contracts.rate_limits import RateLimit, TokenLease


class RateCounter(Protocol):
    """Token buckets by account."""

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        """Take between `at_least` and `at_most` tokens, or none, from the account's bucket for this edge to spend.
        Raises `StorageUnavailable`."""
        ...

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease | None:
        """Like `lease`, without waiting. None if that is impossible: then nothing was taken."""
        ...

    def share(self) -> float:
        """Return this edge's share of a rate while the counter is unavailable: 1 if no other edge was seen."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...
