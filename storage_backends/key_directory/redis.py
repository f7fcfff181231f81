"""The key directory in Redis: control publishes, edges look up and keep what they found.

Each change is an entry of a stream that every edge follows, so a change reaches all of them at once, and one that
was missed while a connection was down is read afterwards. What an edge keeps counts only while it follows; after
a gap each key is asked for once more. While Redis is away the known keys go on working, however long.
"""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.end_task import end_task
from storage_backends.key_directory.interface import KeyEntry, ReadEntries
from storage_backends.key_directory.redis_publication import CHANGES, COMPLETE, KEYS, RedisPublication
from storage_backends.key_directory.stored_entry import to_bytes, to_entry
from storage_backends.redis_connection import RedisConnection, new_client

logger = logging.getLogger(__name__)


_MOST_KNOWN = 100_000
_MOST_UNKNOWN = 10_000
_UNKNOWN_SECONDS = 5.0
# An entry is asked for again after so long while the changes cannot be followed.
_UNFOLLOWED_SECONDS = 2.0
_BLOCK_MS = 500
# A connection that says nothing for longer than a blocked read takes is dead.
_FOLLOW_SECONDS = 1.5
_AGAIN_SECONDS = 0.25
# No stretch of following: what has it is asked for again at its next use.
_NEVER = -1
_NO_CHANGE = b"0-0"


class _Known:
    """A kept entry: in which stretch of following it was asked for, and when."""

    __slots__ = ("entry", "stretch", "asked")

    def __init__(self, entry: KeyEntry, stretch: int, asked: float) -> None:
        self.entry = entry
        self.stretch = stretch
        self.asked = asked


class RedisKeyDirectory:
    """Made by `open_redis_key_directory`."""

    def __init__(
        self,
        url: str,
        *,
        follow: bool,
        seconds: float | None = None,
        most_known: int = _MOST_KNOWN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = RedisConnection(url, clock, seconds=seconds)
        self._publication = RedisPublication(self._connection)
        self._clock = clock
        self._most_known = most_known
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._unknown: OrderedDict[bytes, float] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[KeyEntry | None]] = {}
        # What was asked before a change of the same key arrived: not trusted, or not even kept.
        self._changed_while_asking: set[bytes] = set()
        self._revoked_while_asking: set[bytes] = set()
        self._stretch = 0
        self._following = False
        # The last change that was read.
        self._position = _NO_CHANGE
        self._seen_complete = False
        self._url = url
        self._follower = asyncio.create_task(self._follow(), name="key changes") if follow else None

    # The edge's side.

    async def find(self, digest: bytes) -> KeyEntry | None:
        known = self._known.get(digest)
        if known is not None:
            if self._following and known.stretch == self._stretch:
                self._known.move_to_end(digest)
                return known.entry
            if not self._following and self._clock() - known.asked < _UNFOLLOWED_SECONDS:
                return known.entry
        elif (until := self._unknown.get(digest)) is not None:
            if self._following and self._clock() < until:
                return None
            del self._unknown[digest]
        try:
            return await self._ask_once(digest)
        except StorageUnavailable:
            # Away, or emptied and not published again yet: what worked goes on working.
            if known is not None and digest in self._known:
                known.asked = self._clock()
                return known.entry
            raise

    def unready_reason(self) -> str | None:
        """Why the edge can let nobody in yet; None from the first time on that all keys were there."""
        return None if self._seen_complete else "no keys yet: is Redis there, and `pharos control` running?"

    @property
    def away(self) -> bool:
        """Whether the last call to Redis failed."""
        return self._connection.away

    def kept(self) -> tuple[int, int]:
        """How many keys this edge keeps: known ones, and digests that are none."""
        return len(self._known), len(self._unknown)

    async def _ask_once(self, digest: bytes) -> KeyEntry | None:
        """Ask Redis; requests with the same key wait for one answer."""
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._ask(digest))
            asking.add_done_callback(lambda task: self._asked(digest, task))
        # A request that is given up must not take the answer from the others.
        return await asyncio.shield(asking)

    def _asked(self, digest: bytes, task: "asyncio.Task[KeyEntry | None]") -> None:
        self._asking.pop(digest, None)
        self._changed_while_asking.discard(digest)
        self._revoked_while_asking.discard(digest)
        if not task.cancelled():
            task.exception()

    async def _ask(self, digest: bytes) -> KeyEntry | None:
        stretch, asked = self._stretch, self._clock()

        async def ask(client: Any) -> tuple[bytes | None, int]:
            async with client.pipeline(transaction=True) as pipeline:
                found, complete = await pipeline.hget(KEYS, digest).exists(COMPLETE).execute()
            return found, complete

        found, complete = await self._connection.call(ask)
        if found is None and not complete:
            raise StorageUnavailable("The keys have not been published yet.")
        self._seen_complete = self._seen_complete or bool(complete)
        entry = None if found is None else to_entry(digest, found)
        self._known.pop(digest, None)
        if digest in self._revoked_while_asking:
            return entry
        if digest in self._changed_while_asking:
            stretch = _NEVER
        if entry is not None:
            self._known[digest] = _Known(entry, stretch, asked)
            if len(self._known) > self._most_known:
                self._known.popitem(last=False)
        elif stretch != _NEVER:
            self._unknown[digest] = self._clock() + _UNKNOWN_SECONDS
            if len(self._unknown) > _MOST_UNKNOWN:
                self._unknown.popitem(last=False)
        return entry

    async def _follow(self) -> None:
        """Read the changes for as long as the edge runs."""
        while True:
            client = new_client(self._url, _FOLLOW_SECONDS)
            try:
                await self._follow_on(client)
            except (RedisError, OSError, TimeoutError) as error:
                if self._following:
                    logger.warning("key changes cannot be followed: %r", error)
            finally:
                self._following = False
                await client.aclose()
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow_on(self, client: Any) -> None:
        """Read the changes from now on, until the connection fails."""
        _, self._position = await _ends(client)
        self._seen_complete = self._seen_complete or bool(await client.exists(COMPLETE))
        # Whatever happened in the gap: all that is kept is asked for again. Only then does it count as followed.
        self._begin_stretch()
        self._following = True
        while True:
            begun = self._position
            for entries in _entries_of(await client.xread({CHANGES: begun}, block=_BLOCK_MS)):
                for _, fields in entries:
                    self._take_change(fields)
                self._position = entries[-1][0]
            # Looked at after the reading: what is still there now was there for it.
            first, newest = await _ends(client)
            if _order(newest) < _order(self._position):
                # Emptied over a connection that stayed: new changes may carry lower IDs than the last one seen.
                self._position = newest
                self._begin_stretch()
            elif _order(first) > _order(begun):
                # The last one seen is gone, and maybe some behind it that nobody here has seen.
                self._begin_stretch()

    def _begin_stretch(self) -> None:
        self._stretch += 1
        self._unknown.clear()
        self._changed_while_asking |= self._asking.keys()

    def _take_change(self, fields: dict[bytes, bytes]) -> None:
        if b"all" in fields:
            self._seen_complete = True
            # Asked for at its next use also by who does not follow the changes (any more), and by who made this one.
            for kept in self._known.values():
                kept.asked = -math.inf
            self._begin_stretch()
            return
        digest = fields.get(b"revoked") or fields.get(b"published") or b""
        self._unknown.pop(digest, None)
        if digest in self._asking:
            self._changed_while_asking.add(digest)
        if b"revoked" in fields:
            self._known.pop(digest, None)
            if digest in self._asking:
                self._revoked_while_asking.add(digest)
        elif (known := self._known.get(digest)) is not None:
            # It opens something else now: asked for at its next use, and used as it was should Redis be away then.
            known.stretch, known.asked = _NEVER, -math.inf

    # Control's side. Each change is taken here at once too: who made it does not wait to be told of it.

    async def publish(self, entry: KeyEntry) -> None:
        await self._publication.change(entry.digest, to_bytes(entry))
        self._take_change({b"published": entry.digest})

    async def revoke(self, digest: bytes) -> None:
        await self._publication.change(digest, b"")
        self._take_change({b"revoked": digest})

    async def publish_all(self, read: ReadEntries) -> int:
        count = await self._publication.publish_all(read)
        self._take_change({b"all": b""})
        return count

    async def is_complete(self) -> bool:
        return await self._publication.is_complete()

    async def close(self) -> None:
        if self._follower is not None:
            await end_task(self._follower)
        await self._connection.close()


async def _ends(client: Any) -> tuple[bytes, bytes]:
    """The IDs of the first and the last change that are kept; 0-0 where there is none."""
    async with client.pipeline(transaction=True) as pipeline:
        first, newest = await pipeline.xrange(CHANGES, count=1).xrevrange(CHANGES, count=1).execute()
    return first[0][0] if first else _NO_CHANGE, newest[0][0] if newest else _NO_CHANGE


def _order(change: bytes) -> tuple[int, int]:
    """Stream IDs are two numbers, milliseconds and a count within them."""
    milliseconds, _, count = change.partition(b"-")
    return int(milliseconds), int(count)


def _entries_of(read: Any) -> Sequence[Any]:
    """The streams' entries, in whichever form this version of the protocol gives them."""
    if not read:
        return []
    return (
        [batch for value in read.values() for batch in value]
        if isinstance(read, dict)
        else [entries for _, entries in read]
    )


async def open_redis_key_directory(
    url: str, *, follow: bool = True, seconds: float | None = None
) -> RedisKeyDirectory:
    """The directory in the Redis at `redis://user:password@host:port/database`; it may be away.

    `follow`: read the changes that others publish, as an edge does. `seconds`: how long an answer may take, where it
    is not to fail fast.
    """
    return RedisKeyDirectory(url, follow=follow, seconds=seconds)
