"""The interface of the rate counter that all edges share."""

from typing import Protocol

from pipeline_contracts.rate_limits import RateLimit, TokenLease


class RateCounter(Protocol):
    """Counts the events of accounts with token buckets, one for each account."""

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        """Take tokens from the account's bucket, which this edge may then spend: at least `at_least` and at most
        `at_most`, or none. Raises `StorageUnavailable`."""
        ...

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease | None:
        """Like `lease`, but without waiting. Return None if this is impossible; no token was taken then."""
        ...

    def share(self) -> float:
        """Return the share of each rate that this edge may use while the counter is unavailable, from 0 to 1. It
        is 1 if no other edge was seen."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...
