"""Reports whether a poll of the database can find anything new, so that an idle platform uses almost no CPU."""

import time
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.engine import Sessions

# Interval of polls without a change: rows become due, leases expire, and other processes may write the file.
_UNCHANGED_SECONDS = 5.0
_READS = ("SELECT", "PRAGMA")


class Changes:
    """Changes of an SQLite database by this process since the last poll of one worker. On Postgres, which others write
    too, every poll is due."""

    def __init__(self, sessions: Sessions) -> None:
        self._count = _count_of(sessions)
        self._seen: int | None = None
        self._polled_at = float("-inf")

    def is_due(self) -> bool:
        """True if anything was written since this last returned true, or some seconds have passed. Call it before the
        queries of the poll."""
        now = time.monotonic()
        if self._count is None:
            return True
        if self._seen == self._count.changes and now - self._polled_at < _UNCHANGED_SECONDS:
            return False
        self._seen, self._polled_at = self._count.changes, now
        return True

    def repeat(self) -> None:
        """Make the next poll due: this one did not finish its work."""
        self._seen = None


def count_change(sessions: Sessions) -> None:
    """Count a committed change that this process has made over another connection."""
    if (count := _count_of(sessions)) is not None:
        count.changes += 1


class _ChangeCount:
    """Counts the connections that were given back after a write, thus after their commit."""

    def __init__(self, engine: Engine) -> None:
        self.changes = 0
        event.listen(engine, "before_cursor_execute", self._note)
        event.listen(engine, "checkin", self._count)

    def _note(self, connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        if not statement.lstrip().upper().startswith(_READS):
            connection.info["has_written"] = True

    def _count(self, _connection: Any, record: Any) -> None:
        if record.info.pop("has_written", False):
            self.changes += 1


_counts: "WeakKeyDictionary[Engine, _ChangeCount]" = WeakKeyDictionary()


def _count_of(sessions: Sessions) -> _ChangeCount | None:
    engine = sessions.kw.get("bind")
    if not isinstance(engine, AsyncEngine) or engine.dialect.name != "sqlite":
        return None
    found = _counts.get(engine.sync_engine)
    if found is None:
        found = _counts[engine.sync_engine] = _ChangeCount(engine.sync_engine)
    return found
