"""Salts in Redis, which deletes them by itself when their life is over, whether or not an edge runs then."""

import secrets
from typing import Any

from pipeline_contracts.times import DAY_MS
from storage_backends.redis_connection import RedisConnection
from storage_backends.salts.interface import LIFE_MS, SALT_BYTES

_SALT = "pharos:salt:"


class RedisSalts:
    """Made by `open_redis_salts`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def find_or_make(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        left_ms = day * DAY_MS + LIFE_MS - now_ms
        if left_ms <= 0:
            return None
        wanted = offer or secrets.token_bytes(SALT_BYTES)

        async def run(client: Any) -> bytes:
            # One command: two edges at once get the same one.
            before = await client.set(f"{_SALT}{day}", wanted, nx=True, px=left_ms, get=True)
            return wanted if before is None else bytes(before)

        return await self._connection.call(run)

    async def forget(self, now_ms: int) -> None:
        async def run(client: Any) -> None:
            # Redis has its own clock; an edge's decides for the days that are over by it.
            oldest = now_ms // DAY_MS - LIFE_MS // DAY_MS
            await client.delete(*(f"{_SALT}{day}" for day in range(oldest - 2, oldest + 1)))

        await self._connection.call(run)

    async def close(self) -> None:
        await self._connection.close()


async def open_redis_salts(url: str) -> RedisSalts:
    """Salts in the Redis at `redis://user:password@host:port/database`; it may be away."""
    return RedisSalts(RedisConnection(url))
