"""The key directory in Redis: the control plane publishes keys; edges look them up and cache them.

Each change is an entry of a stream that every edge follows: a change reaches all edges at once, and changes during a
lost connection are read afterwards. An edge caches a key only as long as it follows the stream without a gap (an
epoch). After a gap, it looks each key up once more. While Redis is unavailable, known keys keep working.
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
from storage_backends.key_directory.stored_entry import decode_entry, encode_entry
from storage_backends.redis_connection import RedisConnection, new_client

logger = logging.getLogger(__name__)


_MAX_KNOWN = 100_000
_MAX_UNKNOWN = 10_000
_UNKNOWN_TTL = 5.0
# While an edge cannot follow the changes, it looks an entry up again after this many seconds.
_UNFOLLOWED_TTL = 2.0
_BLOCK_MS = 500
# Longer than a blocked read: if a connection has no response for this long, it is dead.
_FOLLOW_TIMEOUT = 1.5
_RECONNECT_SECONDS = 0.25
# This number is never the current epoch: an entry with it is looked up again at its next use.
_NO_EPOCH = -1
_NO_CHANGE = b"0-0"


class _Known:
    """A cached entry, with the epoch and the time of its lookup."""

    __slots__ = ("entry", "epoch", "read_at")

    def __init__(self, entry: KeyEntry, epoch: int, read_at: float) -> None:
        self.entry = entry
        self.epoch = epoch
        self.read_at = read_at


class RedisKeyDirectory:
    """A `KeyDirectory` in Redis. Made by `open_redis_key_directory`."""

    def __init__(
        self,
        url: str,
        *,
        follow: bool,
        seconds: float | None = None,
        max_known: int = _MAX_KNOWN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = RedisConnection(url, clock, seconds=seconds)
        self._publication = RedisPublication(self._connection)
        self._clock = clock
        self._most_known = max_known
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._unknown: OrderedDict[bytes, float] = OrderedDict()
        self._lookups: dict[bytes, asyncio.Task[KeyEntry | None]] = {}
        # Digests whose lookup began before a change of their key arrived. Their entries are looked up again, or not
        # cached.
        self._changed_during_lookup: set[bytes] = set()
        self._revoked_during_lookup: set[bytes] = set()
        self._epoch = 0
        self._following = False
        # The ID of the last change that was read.
        self._position = _NO_CHANGE
        self._seen_complete = False
        self._url = url
        self._follower = asyncio.create_task(self._follow(), name="key changes") if follow else None

    # Methods for the edge.

    def find_known(self, digest: bytes) -> KeyEntry | None:
        known = self._known.get(digest)
        if known is None:
            return None
        if self._following and known.epoch == self._epoch:
            self._known.move_to_end(digest)
            return known.entry
        if not self._following and self._clock() - known.read_at < _UNFOLLOWED_TTL:
            return known.entry
        return None

    async def find(self, digest: bytes) -> KeyEntry | None:
        if (entry := self.find_known(digest)) is not None:
            return entry
        known = self._known.get(digest)
        if known is None and (until := self._unknown.get(digest)) is not None:
            if self._following and self._clock() < until:
                return None
            del self._unknown[digest]
        try:
            return await self._look_up_once(digest)
        except StorageUnavailable:
            # Redis is unavailable, or it was emptied and not filled again yet. Known keys keep working.
            if known is not None and digest in self._known:
                known.read_at = self._clock()
                return known.entry
            raise

    def unready_reason(self) -> str | None:
        """Return why the edge cannot accept keys yet. None once Redis had all keys."""
        return (
            None
            if self._seen_complete
            else "no keys yet: check that Redis is reachable and `pharos control` is running"
        )

    @property
    def is_away(self) -> bool:
        """Return True if the last call to Redis failed."""
        return self._connection.is_away

    def cache_sizes(self) -> tuple[int, int]:
        """Return two numbers: cached keys, and cached digests that belong to no key."""
        return len(self._known), len(self._unknown)

    async def _look_up_once(self, digest: bytes) -> KeyEntry | None:
        """Read the key from Redis. Concurrent requests with the same key share one lookup."""
        lookup = self._lookups.get(digest)
        if lookup is None:
            lookup = self._lookups[digest] = asyncio.create_task(self._look_up(digest))
            lookup.add_done_callback(lambda task: self._finish_lookup(digest, task))
        # If one request gives up, the lookup must go on for the others.
        return await asyncio.shield(lookup)

    def _finish_lookup(self, digest: bytes, task: "asyncio.Task[KeyEntry | None]") -> None:
        self._lookups.pop(digest, None)
        self._changed_during_lookup.discard(digest)
        self._revoked_during_lookup.discard(digest)
        if not task.cancelled():
            task.exception()

    async def _look_up(self, digest: bytes) -> KeyEntry | None:
        epoch, read_at = self._epoch, self._clock()

        async def look_up(client: Any) -> tuple[bytes | None, int]:
            async with client.pipeline(transaction=True) as pipeline:
                found, complete = await pipeline.hget(KEYS, digest).exists(COMPLETE).execute()
            return found, complete

        found, complete = await self._connection.call(look_up)
        if found is None and not complete:
            raise StorageUnavailable("The keys have not been published yet.")
        self._seen_complete = self._seen_complete or bool(complete)
        entry = None if found is None else decode_entry(digest, found)
        self._known.pop(digest, None)
        if digest in self._revoked_during_lookup:
            return entry
        if digest in self._changed_during_lookup:
            epoch = _NO_EPOCH
        if entry is not None:
            self._known[digest] = _Known(entry, epoch, read_at)
            if len(self._known) > self._most_known:
                self._known.popitem(last=False)
        elif epoch != _NO_EPOCH:
            self._unknown[digest] = self._clock() + _UNKNOWN_TTL
            if len(self._unknown) > _MAX_UNKNOWN:
                self._unknown.popitem(last=False)
        return entry

    async def _follow(self) -> None:
        """Follow the changes for as long as the edge runs."""
        while True:
            client = new_client(self._url, _FOLLOW_TIMEOUT)
            try:
                await self._follow_with(client)
            except (RedisError, OSError, TimeoutError) as error:
                if self._following:
                    logger.warning("key changes cannot be followed: %r", error)
            finally:
                self._following = False
                await client.aclose()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _follow_with(self, client: Any) -> None:
        """Follow the changes from now on, until the connection fails."""
        _, self._position = await _read_stream_ends(client)
        self._seen_complete = self._seen_complete or bool(await client.exists(COMPLETE))
        # Changes in the gap are unknown, so all cached keys must be looked up again before they count as current.
        self._begin_epoch()
        self._following = True
        while True:
            last_read = self._position
            for entries in _list_streams(await client.xread({CHANGES: last_read}, block=_BLOCK_MS)):
                for _, fields in entries:
                    self._apply_change(fields)
                self._position = entries[-1][0]
            # Read the ends of the stream after the changes: a change that exists now also existed for the read above.
            first, newest = await _read_stream_ends(client)
            if _parse_change_id(newest) < _parse_change_id(self._position):
                # Redis was emptied although the connection was not lost. New changes may have lower IDs than the last
                # one that was read.
                self._position = newest
                self._begin_epoch()
            elif _parse_change_id(first) > _parse_change_id(last_read):
                # The last change that was read is no longer in the stream. Later changes that this edge has not read
                # may be missing too.
                self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._unknown.clear()
        self._changed_during_lookup |= self._lookups.keys()

    def _apply_change(self, fields: dict[bytes, bytes]) -> None:
        if b"all" in fields:
            self._seen_complete = True
            # This is for processes that do not follow the changes, such as the one that published the list.
            for cached in self._known.values():
                cached.read_at = -math.inf
            self._begin_epoch()
            return
        digest = fields.get(b"revoked") or fields.get(b"published") or b""
        self._unknown.pop(digest, None)
        if digest in self._lookups:
            self._changed_during_lookup.add(digest)
        if b"revoked" in fields:
            self._known.pop(digest, None)
            if digest in self._lookups:
                self._revoked_during_lookup.add(digest)
        elif (known := self._known.get(digest)) is not None:
            # The entry has changed. Look it up at its next use. If Redis is unavailable then, use the old entry.
            known.epoch, known.read_at = _NO_EPOCH, -math.inf

    # Methods for the control plane. Each change also applies at once to the cache of this process.

    async def publish(self, entry: KeyEntry) -> None:
        await self._publication.change(entry.digest, encode_entry(entry))
        self._apply_change({b"published": entry.digest})

    async def revoke(self, digest: bytes) -> None:
        await self._publication.change(digest, b"")
        self._apply_change({b"revoked": digest})

    async def publish_all(self, read: ReadEntries) -> int:
        count = await self._publication.publish_all(read)
        self._apply_change({b"all": b""})
        return count

    async def is_complete(self) -> bool:
        return await self._publication.is_complete()

    async def close(self) -> None:
        if self._follower is not None:
            await end_task(self._follower)
        await self._connection.close()


async def _read_stream_ends(client: Any) -> tuple[bytes, bytes]:
    """Return the IDs of the first and the last change in the stream. Both are 0-0 if the stream is empty."""
    async with client.pipeline(transaction=True) as pipeline:
        first, newest = await pipeline.xrange(CHANGES, count=1).xrevrange(CHANGES, count=1).execute()
    return first[0][0] if first else _NO_CHANGE, newest[0][0] if newest else _NO_CHANGE


def _parse_change_id(change: bytes) -> tuple[int, int]:
    """Return a stream ID as a pair that can be compared: milliseconds, and a count within the millisecond."""
    milliseconds, _, count = change.partition(b"-")
    return int(milliseconds), int(count)


def _list_streams(read: Any) -> Sequence[Any]:
    """Return the entries of the streams, from a response in either version of the Redis protocol."""
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
    """Return the directory in the Redis at `redis://user:password@host:port/database`, which may be unavailable.

    `follow`: True to follow the changes of other processes, as an edge does. `seconds`: how long to wait for a
    response, instead of the short default.
    """
    return RedisKeyDirectory(url, follow=follow, seconds=seconds)
