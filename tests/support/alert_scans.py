"""An alert scan with the clock of the test, on a database and a column store that can be made to fail."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, select

from control_domain.database.engine import Sessions
from control_domain.tables.notifications import AlertEvent
from control_workers.alert_scan.scan import AlertScan
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore, Lines, QueryResult
from tests.support.accounts import Acme, make_acme


@dataclass
class FailingStore:
    """A column store with the clock of the test, whose queries fail if their text contains one of `failing`."""

    store: ColumnStore
    clock: Callable[[], datetime]
    failing: Sequence[str] = ()
    has_receipts: bool = False
    """If False, the receipts of other tests, which share the store, are not read."""

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        await self.store.insert(table, lines, rows, token, before)

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        if any(text in sql for text in self.failing):
            raise StorageUnavailable("the column store is away")
        if "AS now_ms" in sql:
            return QueryResult(("now_ms",), [[to_epoch_ms(self.clock())]])
        if "pharos.ingest_receipts" in sql and not self.has_receipts:
            return QueryResult(("stored", "lag_ms", "failed"), [[0, 0, 0]])
        if "system.disks" in sql:
            return QueryResult(("name", "free_space", "total_space"), [["default", 50, 100]])
        return await self.store.query(sql, parameters)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self.store.command(sql, parameters)

    async def close(self) -> None:
        """The store is closed by its owner."""


@dataclass
class ScanUnderTest:
    """A scan whose events are taken after each run."""

    sessions: Sessions
    engine: ColumnStore
    acme: Acme
    now: datetime
    store: FailingStore = field(init=False)
    scan: AlertScan = field(init=False)

    def __post_init__(self) -> None:
        self.store = FailingStore(self.engine, lambda: self.now)
        self.scan = AlertScan(self.sessions, self.store, clock=lambda: self.now)

    async def run(self, seconds: float = 0) -> list[tuple[str, str, str]]:
        """Let time pass and scan; return kind, subject and state of the events."""
        return [(event.kind, event.subject, event.state) for event in await self.run_for_events(seconds)]

    async def run_for_events(self, seconds: float = 0) -> Sequence[AlertEvent]:
        """Let time pass and scan; return the events."""
        self.now += timedelta(seconds=seconds)
        assert await self.scan.scan_once()
        return await self.take_events()

    async def take_events(self) -> Sequence[AlertEvent]:
        """Return the events that were written, and delete them."""
        async with self.sessions() as session, session.begin():
            events = (await session.scalars(select(AlertEvent).order_by(AlertEvent.id))).all()
            await session.execute(delete(AlertEvent).execution_options(synchronize_session=False))
        return events

    async def insert(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Insert rows into a table of the column store."""
        lines = "".join(json.dumps(row, default=str) + "\n" for row in rows)
        await self.store.insert(f"pharos.{table}", lines.encode(), len(rows), uuid.uuid4().hex)

    def ago(self, seconds: float) -> str:
        """Return a time before now as the column store reads it."""
        return f"{self.now - timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S.%f}"


async def make_scan(sessions: Sessions, store: ColumnStore) -> ScanUnderTest:
    """Return a scan for a new account with one project and its production environment."""
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        acme = await make_acme(session, now)
    return ScanUnderTest(sessions, store, acme, now)
