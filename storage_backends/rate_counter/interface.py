"""What the edge needs of a counter that all edges share."""

from typing import Protocol

from pipeline_contracts.rate_limits import RateLimit, TokenLease


class RateCounter(Protocol):
    """Token buckets by account."""

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        """Take tokens out of the account's bucket for this edge to spend: between `at_least` and `at_most`,
        or none. Raises `StorageUnavailable` when the counter is away."""
        ...

    def share(self) -> float:
        """This edge's part of an account's rate while the counter is away: 1 where no other edge was seen."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...
