"""Assigns events to visits. The state is in memory and changes with each event; there is no I/O.

Events come in the order of the log. The key of an event is its session, or else its visitor. An event joins a visit
with the same key if the visit has an event at most half an hour earlier or later. If the key is a session, the pause
may have any length. No visit lasts longer than 24 h.
"""

import struct
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

MAX_PAUSE_MS = 30 * 60_000
MAX_VISIT_MS = 24 * 3_600_000

Key = tuple[int, int]
"""The site ID, and the hash of the visitor or of the session."""

_pack = struct.Struct(">QQq").pack
# This hash object is copied for each visit: setting up its parameters costs more than the hash itself.
_new_hash = blake2b(digest_size=8, person=b"pharos-visit")


class Visit(msgspec.Struct, eq=False, gc=False):
    """The ID of a visit, and the times of its first and last event in milliseconds since 1970.

    Two visits are equal only if they are the same object. The garbage collector does not track visits, because there is
    one for each visitor of the last two hours.
    """

    visit_id: int
    first_ms: int
    last_ms: int

    def _rank(self) -> tuple[int, int, int]:
        return (self.last_ms, -self.first_ms, -self.visit_id)


class Visits:
    """The visits in one partition of the log that events may still join.

    If the insert of a chunk fails, the chunk is processed again: `undo` restores the state of the last `begin_chunk`.
    """

    def __init__(self) -> None:
        # These are tuples, because the garbage collector stops tracking tuples of such objects.
        self._by_key: dict[Key, tuple[Visit, ...]] = {}
        self._changed: dict[Visit, tuple[int, int]] = {}
        self._added: list[tuple[Key, Visit]] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def begin_chunk(self) -> None:
        """Keep all changes so far. `undo` returns to this state."""
        self._changed.clear()
        self._added.clear()

    def undo(self) -> None:
        """Restore the state of the last `begin_chunk`."""
        for visit, (first_ms, last_ms) in self._changed.items():
            visit.first_ms, visit.last_ms = first_ms, last_ms
        for key, visit in reversed(self._added):
            visits = tuple(other for other in self._by_key[key] if other is not visit)
            if visits:
                self._by_key[key] = visits
            else:
                del self._by_key[key]
        self.begin_chunk()

    def add_stored(self, keys: Iterable[Key], visit: Visit) -> None:
        """Add a stored visit under these keys, unless it is known already. `undo` does not remove it."""
        keys = list(keys)
        candidates = (candidate for key in keys for candidate in self._by_key.get(key, ()))
        # The visit in memory is newer than the stored one.
        visit = next((known for known in candidates if known.visit_id == visit.visit_id), visit)
        for key in keys:
            visits = self._by_key.get(key, ())
            if visit not in visits:
                self._by_key[key] = (*visits, visit)

    def assign(self, key: Key, previous_key: Key | None, at_ms: int, *, is_session: bool) -> Visit:
        """Return the visit for an event at `at_ms`: one that the event joins, or a new one. `previous_key`: the key of
        the event under the salt of the previous day."""
        visit = self._find(key, at_ms, is_session)
        is_known = visit is not None
        if visit is None and previous_key is not None:
            visit = self._find(previous_key, at_ms, is_session)
        if visit is None:
            visit = Visit(_visit_id(key, at_ms), at_ms, at_ms)
        elif at_ms < visit.first_ms or at_ms > visit.last_ms:
            if visit not in self._changed:
                self._changed[visit] = (visit.first_ms, visit.last_ms)
            if at_ms > visit.last_ms:
                visit.last_ms = at_ms
            else:
                visit.first_ms = at_ms
        if not is_known:
            self._add_by_key(key, visit)
        if previous_key is not None:
            self._add_by_key(previous_key, visit)
        return visit

    def _find(self, key: Key, at_ms: int, is_session: bool) -> Visit | None:
        visits = self._by_key.get(key)
        if visits is None:
            return None
        if len(visits) == 1:
            # Most events arrive in order, soon after the previous event of the visit.
            only = visits[0]
            if (
                only.first_ms <= at_ms <= only.last_ms + MAX_PAUSE_MS
                and at_ms - only.first_ms <= MAX_VISIT_MS
            ):
                return only
        best: Visit | None = None
        for visit in visits:
            first_ms, last_ms = visit.first_ms, visit.last_ms
            is_near = is_session or first_ms - MAX_PAUSE_MS <= at_ms <= last_ms + MAX_PAUSE_MS
            if (
                is_near
                and max(last_ms, at_ms) - min(first_ms, at_ms) <= MAX_VISIT_MS
                and (best is None or visit._rank() > best._rank())
            ):
                best = visit
        return best

    def _add_by_key(self, key: Key, visit: Visit) -> None:
        visits = self._by_key.get(key)
        if visits is None:
            self._by_key[key] = (visit,)
        elif visit in visits:
            return
        else:
            self._by_key[key] = (*visits, visit)
        self._added.append((key, visit))

    def last_event_of(self, number: int) -> int:
        """Return the time of the last event of the key that is the `number`th newest. There must be that many keys."""
        return sorted(visits[-1].last_ms for visits in self._by_key.values())[-number]

    def drop_before(self, horizon_ms: int) -> None:
        """Drop visits whose last event is older than `horizon_ms`. Call it only right after `begin_chunk`."""
        for key, visits in list(self._by_key.items()):
            if visits[-1].last_ms < horizon_ms or len(visits) > 1:
                kept = tuple(visit for visit in visits if visit.last_ms >= horizon_ms)
                if kept:
                    self._by_key[key] = kept
                else:
                    del self._by_key[key]


def _visit_id(key: Key, first_ms: int) -> int:
    """Return 64 bits of a hash, which are never 0. The result is the same each time the log is read."""
    visit_hash = _new_hash.copy()
    visit_hash.update(_pack(*key, first_ms))
    return int.from_bytes(visit_hash.digest()) or 1
