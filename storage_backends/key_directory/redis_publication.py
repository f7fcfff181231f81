"""Control's side of the key directory in Redis: single changes, and lists of all keys that replace the directory."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from redis.exceptions import ResponseError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyEntry, ReadEntries
from storage_backends.key_directory.stored_entry import to_bytes
from storage_backends.redis_connection import RedisConnection

T = TypeVar("T")

KEYS: Final = "pharos:keys"
COMPLETE: Final = "pharos:keys:complete"
CHANGES: Final = "pharos:keys:changes"
_REVOKED = "pharos:keys:revoked-since"
_PUBLISHED = "pharos:keys:published-since"
_ORDER = "pharos:keys:order"
_SCRIPTS = Path(__file__).parent
# After so long a list is removed that nobody has put in place.
_LIST_SECONDS = 600
_MOST_CHANGES = 10_000


class RedisPublication:
    """What the database says, brought into Redis.

    A change is published after its commit, so a list that is read after the change has it. Changes and lists are
    numbered by Redis: a list replaces all but the changes with higher numbers.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        register = connection.client.register_script
        self._begin_publication = register((_SCRIPTS / "begin_publication.lua").read_text())
        self._publish_all = register((_SCRIPTS / "publish_all.lua").read_text())
        self._change_key = register((_SCRIPTS / "change_key.lua").read_text())
        # Whether a call failed since the last publication began, and into which run of Redis that went: another one
        # may have older data (a restart, a failover).
        self._missed_changes = False
        self._published_run: str | None = None

    async def change(self, digest: bytes, data: bytes) -> None:
        """Make one key known as `data`, or unknown where that is empty. Raises `StorageUnavailable`."""

        async def run(_client: Any) -> None:
            await self._change_key(
                keys=[KEYS, CHANGES, _REVOKED, _PUBLISHED, _ORDER], args=[digest, data, _MOST_CHANGES]
            )

        await self._call(run)

    async def _call(self, run: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await self._connection.call(run)
        except StorageUnavailable:
            self._missed_changes = True
            raise

    async def publish_all(self, read: ReadEntries) -> int:
        """As `KeyDirectory.publish_all`."""
        self._missed_changes = False
        run, data, number = await self._call(self._begin)
        try:
            # Read only now: it has every change with a lower number.
            entries = await read()
            await self._place(entries, data, number)
        except BaseException:
            self._missed_changes = True
            raise
        self._published_run = run
        return len(entries)

    async def _begin(self, client: Any) -> tuple[str, bytes, int]:
        run = await _run_of(client)
        keys = [_ORDER, _REVOKED, _PUBLISHED]
        data, number = await self._begin_publication(keys=keys, args=[secrets.token_hex(8)])
        return run, data, int(number)

    async def _place(self, entries: Sequence[KeyEntry], data: bytes, number: int) -> None:
        listed = f"{KEYS}:{secrets.token_hex(8)}"

        async def write(part: Sequence[KeyEntry], client: Any) -> None:
            async with client.pipeline(transaction=False) as pipeline:
                pipeline.hset(listed, mapping={entry.digest: to_bytes(entry) for entry in part})
                # Should nobody be left to put it in place.
                pipeline.expire(listed, _LIST_SECONDS)
                await pipeline.execute()

        for begin in range(0, len(entries), 1000):
            await self._connection.call(partial(write, entries[begin : begin + 1000]))

        async def put_in_place(_client: Any) -> int:
            placed: int = await self._publish_all(
                keys=[listed, KEYS, COMPLETE, CHANGES, _REVOKED, _PUBLISHED, _ORDER],
                args=[len({entry.digest for entry in entries}), data, number, _MOST_CHANGES],
            )
            return placed

        if not await self._connection.call(put_in_place):
            raise StorageUnavailable("Redis lost data while the keys were being published.")

    async def is_complete(self) -> bool:
        """As `KeyDirectory.is_complete`."""

        async def run(client: Any) -> bool:
            if not await client.exists(COMPLETE):
                return False
            return self._published_run in (None, await _run_of(client))

        complete = await self._call(run)
        return complete and not self._missed_changes


async def _run_of(client: Any) -> str:
    """The name of this run of Redis, another one after a restart or a failover; empty where this user may not ask."""
    try:
        return str((await client.info("server")).get("run_id", ""))
    except ResponseError:
        # INFO is of the category that many rules for users leave out (@dangerous).
        return ""
