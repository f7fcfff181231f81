"""Token buckets in Redis, shared by all edges."""

import secrets
from pathlib import Path
from typing import Any

from pipeline_contracts.rate_limits import RateLimit, TokenLease
from storage_backends.redis_connection import RedisConnection

_SCRIPT = Path(__file__).with_name("take_tokens.lua").read_text()
_BUCKET = "pharos:tokens:"
_EDGES = "pharos:edges"
# An edge that has had no requests for this long has no share of the rate until its next request.
_SILENT_SECONDS = 5


class RedisRateCounter:
    """A `RateCounter` in Redis. Made by `open_redis_rate_counter`."""

    def __init__(self, connection: RedisConnection, expected_edges: int = 1) -> None:
        self._connection = connection
        self._take = connection.client.register_script(_SCRIPT)
        self._name = secrets.token_hex(6)
        self._edges = max(1, expected_edges)

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        arguments: list[str | int] = [
            at_least,
            at_most,
            repr(limit.rate),
            limit.burst,
            self._name,
            _SILENT_SECONDS,
        ]

        async def take(_client: Any) -> Any:
            # The client sends only the digest of the script. It sends the script itself only if Redis does not
            # know it.
            return await self._take(keys=[_BUCKET + account_id, _EDGES], args=arguments)

        granted, remaining, wait, edges = await self._connection.call(take)
        self._edges = max(1, int(edges))
        return TokenLease(int(granted), int(remaining), float(wait))

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> None:
        # Each lease needs a round trip to Redis.
        return None

    def share(self) -> float:
        # Use the number of edges in the last response of Redis. An edge that was silent then gets the same
        # share: without Redis, the current number is unknown.
        return 1.0 / self._edges

    @property
    def is_away(self) -> bool:
        """Return True if the last call to Redis failed."""
        return self._connection.is_away

    async def close(self) -> None:
        await self._connection.close()


async def open_redis_rate_counter(url: str, *, expected_edges: int = 1) -> RedisRateCounter:
    """Return a counter in the Redis at `redis://user:password@host:port/database`, which may be unavailable.

    `expected_edges`: how many edges share an account's rate until Redis has responded for the first time.
    """
    return RedisRateCounter(RedisConnection(url), expected_edges)
