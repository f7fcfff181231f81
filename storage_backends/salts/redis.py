"""Stores salts in Redis. Redis deletes a salt at the end of its lifetime, even if no edge runs."""

import secrets
from typing import Any

from pipeline_contracts.times import DAY_MS
from storage_backends.redis_connection import RedisConnection
from storage_backends.salts.interface import LIFETIME_MS, SALT_BYTES

_SALT = "pharos:salt:"


class RedisSalts:
    """`Salts` in Redis. Made by `open_redis_salts`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        remaining_ms = day * DAY_MS + LIFETIME_MS - now_ms
        if remaining_ms <= 0:
            return None
        candidate = offer or secrets.token_bytes(SALT_BYTES)

        async def run(client: Any) -> bytes:
            # A single atomic command lets concurrent edges get the same salt.
            existing = await client.set(f"{_SALT}{day}", candidate, nx=True, px=remaining_ms, get=True)
            return candidate if existing is None else bytes(existing)

        return await self._connection.call(run)

    async def delete_expired(self, now_ms: int) -> None:
        async def run(client: Any) -> None:
            # Redis deletes expired salts by its own clock. Here, the edge deletes days that are over by the
            # edge's clock.
            oldest = now_ms // DAY_MS - LIFETIME_MS // DAY_MS
            await client.delete(*(f"{_SALT}{day}" for day in range(oldest - 2, oldest + 1)))

        await self._connection.call(run)

    async def close(self) -> None:
        await self._connection.close()


async def open_redis_salts(url: str) -> RedisSalts:
    """Return the salts in the Redis at `redis://user:password@host:port/database`, which may be unavailable."""
    return RedisSalts(RedisConnection(url))
