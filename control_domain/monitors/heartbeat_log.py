"""The log of a heartbeat: the texts that its job has sent to `/log`."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.monitors import Heartbeat, HeartbeatLogEntry
from pipeline_contracts.times import format_time, from_epoch_ms


class LogEntryDocument(TypedDict):
    """A text that a job has logged at its heartbeat."""

    id: str
    run_id: Annotated[str | None, Meta(description="The run that the job has named with `rid`.")]
    logged_at: Annotated[str, Meta(description="When it was received.")]
    text: Annotated[str | None, Meta(description="Up to 10 KiB; null for a ping without a body.")]


class LogKey(NamedTuple):
    """The place of an entry in its list: newest first, and by ID among entries of the same millisecond."""

    received_ms: int
    entry_id: str

    def __str__(self) -> str:
        return f"{self.received_ms} {self.entry_id}"

    @classmethod
    def read(cls, text: str) -> "LogKey":
        """Read what `str` has written."""
        received_ms, _, entry_id = text.partition(" ")
        return cls(int(received_ms), entry_id)


async def list_log(
    session: AsyncSession, heartbeat: Heartbeat, limit: int, after: LogKey | None
) -> tuple[Sequence[HeartbeatLogEntry], bool]:
    """Return a page of the log, newest first, and whether more follow. `after`: the last entry of the page before."""
    entry = HeartbeatLogEntry
    query = (
        select(entry)
        .where(entry.heartbeat_id == heartbeat.id)
        .order_by(entry.received_ms.desc(), entry.entry_id)
        .limit(limit + 1)
    )
    if after is not None:
        same_time = and_(entry.received_ms == after.received_ms, entry.entry_id > after.entry_id)
        query = query.where(or_(entry.received_ms < after.received_ms, same_time))
    rows = (await session.execute(query)).scalars().all()
    return rows[:limit], len(rows) > limit


def describe_log_entry(entry: HeartbeatLogEntry) -> LogEntryDocument:
    return {
        "id": entry.entry_id,
        "run_id": entry.run_id,
        "logged_at": format_time(from_epoch_ms(entry.received_ms)),
        "text": entry.text,
    }
