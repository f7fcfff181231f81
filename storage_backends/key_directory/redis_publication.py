"""Publishes keys to Redis for the control plane: changes of single keys, and lists of all keys that replace the whole
directory."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from redis.exceptions import ResponseError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyEntry, ReadEntries
from storage_backends.key_directory.stored_entry import encode_entry
from storage_backends.redis_connection import RedisConnection

T = TypeVar("T")

KEYS: Final = "pharos:keys"
COMPLETE: Final = "pharos:keys:complete"
CHANGES: Final = "pharos:keys:changes"
_REVOKED = "pharos:keys:revoked-since"
_PUBLISHED = "pharos:keys:published-since"
_ORDER = "pharos:keys:order"
_SCRIPTS = Path(__file__).parent
# A list that has not replaced the directory by then is removed after this time.
_LIST_TTL_SECONDS = 600
_MAX_CHANGES = 10_000


class RedisPublication:
    """Copies the keys of the database to Redis.

    A change is published after its commit to the database, so a list that is read from the database afterwards
    contains the change. Redis numbers changes and lists. A list replaces everything except changes with a higher
    number.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        register = connection.client.register_script
        self._begin_publication = register((_SCRIPTS / "begin_publication.lua").read_text())
        self._publish_all = register((_SCRIPTS / "publish_all.lua").read_text())
        self._change_key = register((_SCRIPTS / "change_key.lua").read_text())
        # `_missed_changes`: True if a call failed since the last publication began. `_published_run`: the run ID of
        # Redis at that publication. After a restart or a failover, Redis has another run ID and may have older data.
        self._missed_changes = False
        self._published_run: str | None = None

    async def change(self, digest: bytes, data: bytes) -> None:
        """Set the entry of one key to `data`; empty `data` removes the key. Raises `StorageUnavailable`."""

        async def run(_client: Any) -> None:
            await self._change_key(
                keys=[KEYS, CHANGES, _REVOKED, _PUBLISHED, _ORDER], args=[digest, data, _MAX_CHANGES]
            )

        await self._call(run)

    async def _call(self, run: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await self._connection.call(run)
        except StorageUnavailable:
            self._missed_changes = True
            raise

    async def publish_all(self, read: ReadEntries) -> int:
        """See `KeyDirectory.publish_all`."""
        self._missed_changes = False
        run, data, number = await self._call(self._begin)
        try:
            # Read the keys after `_begin`, so that the list has every change with a lower number.
            entries = await read()
            await self._write_list(entries, data, number)
        except BaseException:
            self._missed_changes = True
            raise
        self._published_run = run
        return len(entries)

    async def _begin(self, client: Any) -> tuple[str, bytes, int]:
        run = await _read_run_id(client)
        keys = [_ORDER, _REVOKED, _PUBLISHED]
        data, number = await self._begin_publication(keys=keys, args=[secrets.token_hex(8)])
        return run, data, int(number)

    async def _write_list(self, entries: Sequence[KeyEntry], data: bytes, number: int) -> None:
        list_name = f"{KEYS}:{secrets.token_hex(8)}"

        async def write(part: Sequence[KeyEntry], client: Any) -> None:
            async with client.pipeline(transaction=False) as pipeline:
                pipeline.hset(list_name, mapping={entry.digest: encode_entry(entry) for entry in part})
                # The list expires if this process ends before the list replaces the directory.
                pipeline.expire(list_name, _LIST_TTL_SECONDS)
                await pipeline.execute()

        for begin in range(0, len(entries), 1000):
            await self._connection.call(partial(write, entries[begin : begin + 1000]))

        async def replace_directory(_client: Any) -> int:
            replaced: int = await self._publish_all(
                keys=[list_name, KEYS, COMPLETE, CHANGES, _REVOKED, _PUBLISHED, _ORDER],
                args=[len({entry.digest for entry in entries}), data, number, _MAX_CHANGES],
            )
            return replaced

        if not await self._connection.call(replace_directory):
            raise StorageUnavailable("Redis lost data while the keys were being published.")

    async def is_complete(self) -> bool:
        """See `KeyDirectory.is_complete`."""

        async def run(client: Any) -> bool:
            if not await client.exists(COMPLETE):
                return False
            return self._published_run in (None, await _read_run_id(client))

        complete = await self._call(run)
        return complete and not self._missed_changes


async def _read_run_id(client: Any) -> str:
    """Return the run ID of Redis, which changes with a restart or a failover. Empty if the Redis user may not read
    it."""
    try:
        return str((await client.info("server")).get("run_id", ""))
    except ResponseError:
        # INFO is in the category @dangerous, which many ACL rules exclude.
        return ""
