"""Token buckets in Redis: one for all edges."""

import secrets
from pathlib import Path
from typing import Any

from pipeline_contracts.rate_limits import RateLimit, TokenLease
from storage_backends.redis_connection import RedisConnection

_SCRIPT = Path(__file__).with_name("take_tokens.lua").read_text()
_BUCKET = "pharos:tokens:"
_EDGES = "pharos:edges"
# An edge without traffic takes no share of it. It is counted again from its first request on.
_SILENT_SECONDS = 5


class RedisRateCounter:
    """Made by `open_redis_rate_counter`."""

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
            # By its digest; sent whole where Redis does not know it (any more).
            return await self._take(keys=[_BUCKET + account_id, _EDGES], args=arguments)

        granted, remaining, wait, edges = await self._connection.call(take)
        self._edges = max(1, int(edges))
        return TokenLease(int(granted), int(remaining), float(wait))

    def share(self) -> float:
        # As many as took part when Redis was last heard of. Traffic that moves to an edge which was silent then is
        # held to the same share there: without Redis nobody can tell.
        return 1.0 / self._edges

    @property
    def away(self) -> bool:
        """Whether the last call to Redis failed."""
        return self._connection.away

    async def close(self) -> None:
        await self._connection.close()


async def open_redis_rate_counter(url: str, *, expected_edges: int = 1) -> RedisRateCounter:
    """A counter in the Redis at `redis://user:password@host:port/database`; it may be away.

    `expected_edges`: among how many an account's rate is divided until Redis was heard of for the first time.
    """
    return RedisRateCounter(RedisConnection(url), expected_edges)
