"""Reads and writes the states of the alert scan, and writes its events, in one transaction."""

import json
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.database.statements import dialect_insert
from control_domain.tables.notifications import AlertState
from control_workers.alert_scan.conditions import Event, Scope
from control_workers.alert_scan.judge import Changes, Remembered
from control_workers.alert_scan.phases import Phase, State

_AT_ONCE = 500
_PHASES: Mapping[str, Phase] = {"ok": "ok", "pending": "pending", "firing": "firing"}


async def read_states(session: AsyncSession) -> Mapping[str, Remembered]:
    """Return the stored states of all conditions, by key. Rows of other kinds are left out."""
    rows = (await session.scalars(select(AlertState))).all()
    return {row.key: found for row in rows if (found := _read(row)) is not None}


def _read(row: AlertState) -> Remembered | None:
    details = json.loads(row.details)
    if "kind" not in details:
        return None
    state = State(_PHASES[row.phase], row.since, row.evaluated_at, row.value)
    return Remembered(state, Scope(*details["scope"]), details["kind"], details["subject"])


async def write_changes(session: AsyncSession, changes: Changes) -> None:
    """Write the states and the events of a scan."""
    rows = [_to_row(key, remembered) for key, remembered in changes.written.items()]
    for first in range(0, len(rows), _AT_ONCE):
        insert = dialect_insert(session, AlertState).values(rows[first : first + _AT_ONCE])
        changed = {
            name: insert.excluded[name] for name in ("phase", "since", "value", "details", "evaluated_at")
        }
        await session.execute(insert.on_conflict_do_update(index_elements=["key"], set_=changed))
    deleted = sorted(changes.deleted)
    for first in range(0, len(deleted), _AT_ONCE):
        query = delete(AlertState).where(AlertState.key.in_(deleted[first : first + _AT_ONCE]))
        await session.execute(query.execution_options(synchronize_session=False))
    for event in changes.events:
        _record(session, event)


def _to_row(key: str, remembered: Remembered) -> dict[str, object]:
    scope, state = remembered.scope, remembered.state
    details = {
        "scope": [scope.account_id, scope.project_id, scope.environment_id],
        "kind": remembered.kind,
        "subject": remembered.subject,
    }
    return {
        "key": key,
        "phase": state.phase,
        "since": state.since,
        "value": state.value,
        "details": json.dumps(details),
        "evaluated_at": state.evaluated_at,
    }


def _record(session: AsyncSession, event: Event) -> None:
    scope = event.scope
    record_alert_event(
        session,
        event.kind,
        event.subject,
        event.state,
        event.at,
        account_id=scope.account_id,
        project_id=scope.project_id,
        environment_id=scope.environment_id,
        facts=event.facts,
    )


async def read_note(session: AsyncSession, key: str) -> dict[str, int | str]:
    """Return the note that is stored under this key. Empty if there is none."""
    row = await session.get(AlertState, key)
    return {} if row is None else json.loads(row.details)


async def write_note(session: AsyncSession, key: str, note: Mapping[str, int | str], now: datetime) -> None:
    """Replace the note that is stored under this key. An empty note deletes the row."""
    await session.execute(delete(AlertState).where(AlertState.key == key))
    if note:
        session.add(
            AlertState(key=key, phase="ok", since=now, value=None, details=json.dumps(note), evaluated_at=now)
        )
        await session.flush()
