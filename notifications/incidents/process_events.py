"""The incident worker's step: turn alert events into incidents, and add incidents to groups, in one transaction.

The row of a subject is locked while its events are written, so the order of event IDs is the order of the changes. Two
workers may run at the same time: the second worker waits until the first one has deleted its events, and then no
longer finds them.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import DatabaseUnavailable, is_schema_outdated
from control_domain.tables.notifications import AlertEvent, AlertIncident
from notifications.incidents.apply_events import DEPLOYMENT_BEFORE, Event, Incident, apply_events
from notifications.incidents.last_deployments import LastDeployments
from notifications.incidents.load_rules import load_environment_types, load_rules
from notifications.incidents.members import change_members
from notifications.incidents.routing import AccountRules, Recipient, Routed, route
from pipeline_contracts.alert_kinds import ALERT_KINDS
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import from_epoch_ms

logger = logging.getLogger(__name__)

# Number of events in a batch. On SQLite, nobody else can write while a batch is processed, which takes 0.2 s.
_BATCH = 500
# Database errors that no event has caused: the batch is processed again later.
_NOT_OF_EVENTS = (DatabaseUnavailable, PoolTimeout)
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Routes:
    """The data that decides who is notified of an incident."""

    rules: Mapping[int, AccountRules]
    """The rules of each account."""
    environment_types: Mapping[int, str]

    def find(self, event: Event) -> Mapping[Recipient, bool]:
        """Return the recipients of an incident whose last event is `event`. The value is True for a recipient who gets
        reminders."""
        kind = ALERT_KINDS[event.kind]
        if kind.family == "test":
            return {Recipient("channel", int(event.facts["channel_id"])): False}
        account, project, environment = event.scope
        type_ = self.environment_types.get(environment or 0)
        return route(Routed(project, environment, type_, event.kind, event.severity), self.rules[account])


class IncidentWorker:
    """Processes the events of all accounts in turns, so that many events of one account delay only that account."""

    def __init__(self, sessions: Sessions, *, has_email: bool, wait: timedelta) -> None:
        """`has_email`: True if the installation sends e-mail. `wait`: the minimum time from a change to its
        message."""
        self._sessions = sessions
        self._has_email = has_email
        self._wait = wait
        self._last_account = 0

    async def process_some(self, now: datetime) -> int:
        """Process up to 500 events of one account. Return their number: 0 if no account has events.

        An event that cannot be processed is logged and dropped, so that it does not hold up the others. Raises the
        errors of an unreachable database; then nothing has changed.
        """
        account = await self._next_account()
        if account is None:
            return 0
        self._last_account = account
        oldest = (
            select(AlertEvent.id)
            .where(AlertEvent.account_id == account)
            .order_by(AlertEvent.id)
            .limit(_BATCH)
        )
        try:
            # Another worker may have processed these events meanwhile.
            return max(await self._process(now, AlertEvent.id.in_(oldest)), 1)
        except _NOT_OF_EVENTS:
            raise
        except Exception:
            logger.exception("alert events could not be processed together; they are processed one by one")
        async with self._sessions() as session:
            numbers = (await session.scalars(oldest)).all()
        for number in numbers:
            await self._process_alone(now, number)
        return max(len(numbers), 1)

    async def _next_account(self) -> int | None:
        """Return the account whose turn it is. None if no account has events."""
        accounts = select(func.min(AlertEvent.account_id))
        async with self._sessions() as session:
            following = await session.scalar(accounts.where(AlertEvent.account_id > self._last_account))
            if following is None and self._last_account:
                # All accounts have had their turn. If no event is left, the next call needs only one query.
                self._last_account = 0
                following = await session.scalar(accounts)
            return following

    async def _process(self, now: datetime, which: ColumnElement[bool]) -> int:
        async with self._sessions() as session, session.begin():
            rows = await _take_rows(session, which)
            # After a downgrade, this version does not know the kinds of newer versions.
            events = [_read_event(row) for row in rows if row.kind in ALERT_KINDS]
            if events:
                await self._apply(session, events, now)
            return len(rows)

    async def _process_alone(self, now: datetime, number: int) -> None:
        """Process a single event. Drop the event if it cannot be processed."""
        for attempt in (1, 2):
            try:
                await self._process(now, AlertEvent.id == number)
                return
            except _NOT_OF_EVENTS:
                raise
            except Exception as error:
                if isinstance(error, ProgrammingError) and is_schema_outdated(error):
                    raise
                if isinstance(error, IntegrityError) and attempt == 1:
                    # A channel was removed, or another worker has opened the incident. The second attempt reads the
                    # new state.
                    continue
                logger.exception("alert event %d is dropped: it cannot be processed", number)
            async with self._sessions() as session, session.begin():
                await session.execute(delete(AlertEvent).where(AlertEvent.id == number))
            return

    async def _apply(self, session: AsyncSession, events: Sequence[Event], now: datetime) -> None:
        changed = apply_events(events, await _load_open(session, {event.key for event in events}))
        scopes = {incident.last.scope for incident in changed}
        environments = {environment for _, _, environment in scopes if environment is not None}
        routes = Routes(
            await load_rules(session, {account for account, _, _ in scopes}, has_email=self._has_email),
            await load_environment_types(session, environments),
        )
        # Store ended incidents first, because a new incident of the same subject needs their key.
        await _store_changed(session, [each for each in changed if each.incident_id is not None])
        await _store_new(session, changed, environments)
        of_change: dict[str, list[Incident]] = {}
        for incident in changed:
            of_change.setdefault(incident.change, []).append(incident)
        news = [each for change in ("opened", "info", "escalated") for each in of_change.get(change, ())]
        await change_members(
            session,
            resolved=_ids(of_change.get("resolved", ())),
            escalated=_ids(of_change.get("escalated", ())),
            routed=[(incident, routes.find(incident.last)) for incident in news],
            now=now,
            wait=self._wait,
        )


async def _take_rows(session: AsyncSession, which: ColumnElement[bool]) -> list[Row[Any]]:
    rows = await session.execute(
        delete(AlertEvent)
        .where(which)
        .returning(*AlertEvent.__table__.c)
        .execution_options(synchronize_session=False)
    )
    return sorted(rows, key=lambda row: int(row.id))


def _read_event(row: Row[Any]) -> Event:
    return Event(
        (row.account_id, row.project_id, row.environment_id),
        row.kind,
        row.subject,
        row.state,
        row.at_ms,
        msgspec.json.decode(row.facts),
    )


def _ids(incidents: Collection[Incident]) -> list[int]:
    return [incident.incident_id for incident in incidents if incident.incident_id is not None]


async def _load_open(session: AsyncSession, keys: Collection[str]) -> dict[str, Incident]:
    rows = await session.scalars(select(AlertIncident).where(AlertIncident.open_key.in_(keys)))
    return {row.open_key or "": _read_incident(row) for row in rows}


def _read_incident(row: AlertIncident) -> Incident:
    event = Event(
        (row.account_id, row.project_id, row.environment_id),
        row.kind,
        row.subject,
        "firing",
        int(row.changed_at.timestamp() * 1000),
        msgspec.json.decode(row.facts),
    )
    return Incident(event, event, "seen", row.id)


async def _store_new(
    session: AsyncSession, changed: Sequence[Incident], environments: Collection[int]
) -> None:
    """Insert the incidents that have no row yet, and set their row numbers."""
    new = [incident for incident in changed if incident.incident_id is None]
    if not new:
        return
    deployments = LastDeployments(session)
    await deployments.read(environments)
    rows = [_new_row(incident, deployments) for incident in new]
    inserted = await session.execute(
        insert(AlertIncident).returning(AlertIncident.id, AlertIncident.public_id), rows
    )
    numbers = {public_id: number for number, public_id in inserted}
    for incident, values in zip(new, rows, strict=True):
        incident.incident_id = numbers[values["public_id"]]


def _new_row(incident: Incident, deployments: LastDeployments) -> dict[str, Any]:
    first, last = incident.first, incident.last
    account, project, environment = last.scope
    started_at, changed_at = from_epoch_ms(first.at_ms), from_epoch_ms(last.at_ms)
    facts = dict(last.facts)
    if (before := deployments.find_before(environment, started_at)) is not None:
        facts[DEPLOYMENT_BEFORE] = before
    is_open = incident.change == "opened"
    return {
        "public_id": make_identifier("inc", first.at_ms),
        "open_key": last.key if is_open else None,
        "account_id": account,
        "project_id": project,
        "environment_id": environment,
        "kind": last.kind,
        "subject": last.subject,
        "severity": last.severity,
        "state": "firing" if is_open else "info" if incident.change == "info" else "resolved",
        "started_at": started_at,
        "changed_at": changed_at,
        "resolved_at": changed_at if incident.change == "passed" else None,
        "facts": _encode(facts).decode(),
    }


async def _store_changed(session: AsyncSession, changed: Sequence[Incident]) -> None:
    if not changed:
        return
    values = [
        {
            "id": incident.incident_id,
            "kind": incident.last.kind,
            "severity": incident.last.severity,
            "changed_at": from_epoch_ms(incident.last.at_ms),
            "facts": _encode(incident.last.facts).decode(),
            "state": "resolved" if incident.change == "resolved" else "firing",
            "resolved_at": from_epoch_ms(incident.last.at_ms) if incident.change == "resolved" else None,
            "open_key": None if incident.change == "resolved" else incident.last.key,
        }
        # Use a fixed order, because other transactions lock several incidents too.
        for incident in sorted(changed, key=lambda incident: incident.incident_id or 0)
    ]
    await session.execute(update(AlertIncident), values)
    escalated = _ids([incident for incident in changed if incident.change == "escalated"])
    if escalated:
        # Somebody has acknowledged the incident when it was less severe, so remove the acknowledgement.
        await session.execute(
            update(AlertIncident)
            .where(AlertIncident.id.in_(escalated))
            .values(acknowledged_at=None, acknowledged_by_id=None)
            .execution_options(synchronize_session=False)
        )
