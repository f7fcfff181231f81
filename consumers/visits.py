"""Which visit an event belongs to. Pure: what is known of visits, and how it changes with each event.

Events come in the order of the log. An event joins a visit of its key (its session's, else its visitor's) if it lies no
more than half an hour before or after it, a session's whatever the pause; no visit lasts longer than 24 h.
"""

import struct
from collections.abc import Iterable
from hashlib import blake2b

PAUSE_MS = 30 * 60_000
LONGEST_MS = 24 * 3_600_000

Key = tuple[int, int]
"""(site, hash of the visitor or of the session)."""

_pack = struct.Struct(">QQq").pack


class Visit:
    """What has to be known of a visit to place events: times in milliseconds since 1970."""

    __slots__ = ("visit_id", "first_ms", "last_ms")

    def __init__(self, visit_id: int, first_ms: int, last_ms: int) -> None:
        self.visit_id = visit_id
        self.first_ms = first_ms
        self.last_ms = last_ms

    def _rank(self) -> tuple[int, int, int]:
        return (self.last_ms, -self.first_ms, -self.visit_id)


class Visits:
    """The visits of one partition of the log that an event may still join.

    `begin_chunk` marks where `undo` goes back to: a chunk whose insert failed is worked through again.
    """

    def __init__(self) -> None:
        self._by_key: dict[Key, list[Visit]] = {}
        self._changed: dict[Visit, tuple[int, int]] = {}
        self._known_now: list[tuple[Key, Visit]] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def begin_chunk(self) -> None:
        """What was placed so far stays."""
        self._changed.clear()
        self._known_now.clear()

    def undo(self) -> None:
        """Back to how it was when the chunk began."""
        for visit, (first_ms, last_ms) in self._changed.items():
            visit.first_ms, visit.last_ms = first_ms, last_ms
        for key, visit in reversed(self._known_now):
            visits = self._by_key[key]
            visits.remove(visit)
            if not visits:
                del self._by_key[key]
        self.begin_chunk()

    def add(self, keys: Iterable[Key], visit: Visit) -> None:
        """Make a stored visit known by these keys, unless it is; it stays when the chunk is undone."""
        keys = list(keys)
        known = (one for key in keys for one in self._by_key.get(key, ()))
        # What is known of it is newer than what is stored.
        visit = next((one for one in known if one.visit_id == visit.visit_id), visit)
        for key in keys:
            visits = self._by_key.setdefault(key, [])
            if visit not in visits:
                visits.append(visit)

    def place(self, key: Key, before: Key | None, at_ms: int, *, is_session: bool) -> Visit:
        """The visit that the event at `at_ms` joins or begins. `before`: its key under the salt of the day before."""
        visit = self._find(key, at_ms, is_session)
        if visit is None and before is not None:
            visit = self._find(before, at_ms, is_session)
        if visit is None:
            visit = Visit(_visit_id(key, at_ms), at_ms, at_ms)
        else:
            if at_ms < visit.first_ms or at_ms > visit.last_ms:
                if visit not in self._changed:
                    self._changed[visit] = (visit.first_ms, visit.last_ms)
                if at_ms > visit.last_ms:
                    visit.last_ms = at_ms
                else:
                    visit.first_ms = at_ms
        self._make_known(key, visit)
        if before is not None:
            self._make_known(before, visit)
        return visit

    def _find(self, key: Key, at_ms: int, is_session: bool) -> Visit | None:
        visits = self._by_key.get(key)
        if visits is None:
            return None
        if len(visits) == 1:
            # Most events come in order, soon after the one before.
            only = visits[0]
            if only.first_ms <= at_ms <= only.last_ms + PAUSE_MS and at_ms - only.first_ms <= LONGEST_MS:
                return only
        best: Visit | None = None
        for visit in visits:
            first_ms, last_ms = visit.first_ms, visit.last_ms
            near = is_session or first_ms - PAUSE_MS <= at_ms <= last_ms + PAUSE_MS
            if (
                near
                and max(last_ms, at_ms) - min(first_ms, at_ms) <= LONGEST_MS
                and (best is None or visit._rank() > best._rank())
            ):
                best = visit
        return best

    def _make_known(self, key: Key, visit: Visit) -> None:
        visits = self._by_key.get(key)
        if visits is None:
            self._by_key[key] = [visit]
        elif visit in visits:
            return
        else:
            visits.append(visit)
        self._known_now.append((key, visit))

    def forget_before(self, horizon_ms: int) -> None:
        """Drop visits whose last event is older. Not within a chunk that may be undone."""
        for key, visits in list(self._by_key.items()):
            if visits[-1].last_ms < horizon_ms or len(visits) > 1:
                kept = [visit for visit in visits if visit.last_ms >= horizon_ms]
                if kept:
                    self._by_key[key] = kept
                else:
                    del self._by_key[key]


def _visit_id(key: Key, first_ms: int) -> int:
    """64 bits of a hash: the same when the log is read again. Never 0."""
    digest = blake2b(_pack(*key, first_ms), digest_size=8, person=b"pharos-visit").digest()
    return int.from_bytes(digest) or 1
