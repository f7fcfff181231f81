"""Composes the content of a message from the incidents of a group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.notifications.signed_links import LinkRecipient
from control_domain.tables.accounts import Account, Person
from control_domain.tables.notifications import AlertIncident, NotificationChannel, NotificationGroup
from control_domain.tables.projects import Environment, Project
from notifications.descriptions.all_families import describe
from notifications.descriptions.interface import Subject
from notifications.incidents.apply_events import DEPLOYMENT_BEFORE
from notifications.message import DeploymentBefore, ListedIncident, Message, Reason
from pipeline_contracts.alert_kinds import SEVERITIES, EventState, Severity
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.times import format_optional_time, format_time, to_epoch_ms


@dataclass(frozen=True, slots=True)
class Composition:
    """The incidents of one message."""

    reason: Reason
    listed: Sequence[tuple[AlertIncident, str]]
    """Up to ten incidents, each with the `EventState` that the message reports."""
    total: int
    """Number of all incidents of the message, listed or not."""
    firing: int
    resolved: int


class Place(NamedTuple):
    """The names of an incident's account, project and environment."""

    account: str
    project: str | None
    environment: str | None


class Recipients:
    """Reads names for the messages of one group: of the recipient, the account, the project and the
    environment."""

    def __init__(self, session: AsyncSession, group: NotificationGroup) -> None:
        self._session = session
        self._group = group

    async def is_available(self) -> bool:
        """Return False if the channel of the group was turned off."""
        if self._group.channel_id is None:
            return True
        query = select(NotificationChannel.enabled).where(NotificationChannel.id == self._group.channel_id)
        return bool(await self._session.scalar(query))

    async def read_name(self) -> str:
        """Return the name of the channel, or the e-mail address of the person."""
        query = (
            select(NotificationChannel.name).where(NotificationChannel.id == self._group.channel_id)
            if self._group.channel_id is not None
            else select(Person.email).where(Person.id == self._group.person_id)
        )
        return (await self._session.scalar(query)) or ""

    async def read_place(self) -> Place:
        """Return the names of the account, project and environment of the group."""
        account = await self._session.scalar(select(Account.name).where(Account.id == self._group.account_id))
        project = await self._session.scalar(select(Project.slug).where(Project.id == self._group.project_id))
        environment = await self._session.scalar(
            select(Environment.slug).where(Environment.id == self._group.environment_id)
        )
        return Place(account or "", project, environment)


def compose_message(
    composition: Composition,
    place: Place,
    group: NotificationGroup,
    now: datetime,
    link: Callable[[str, LinkRecipient, datetime], str | None],
) -> Message:
    """Return the message of a group. `link`: returns the signed URL of an incident's page for its recipient."""
    recipient = LinkRecipient(group.channel_id, group.person_id)
    incidents = [
        list_incident(row, state, place, link(row.public_id, recipient, now))
        for row, state in composition.listed
    ]
    url = incidents[0].url if incidents else None
    return Message(
        id=make_identifier("msg", to_epoch_ms(now)),
        group_id=group.public_id,
        reason=composition.reason,
        is_test=group.family == "test",
        state=_state(composition),
        severity=max((each.severity for each in incidents), key=SEVERITIES.index, default="info"),
        family=group.family,
        title=_title(composition, incidents, group.family),
        created_at=format_time(now),
        account=place.account,
        project=place.project,
        environment=place.environment,
        incidents=incidents,
        firing=composition.firing,
        resolved=composition.resolved,
        more=composition.total - len(incidents),
        url=url,
        acknowledge_url=None if url is None else f"{url}#acknowledge",
        silence_url=None if url is None else f"{url}#silence",
    )


def list_incident(row: AlertIncident, state: str, place: Place, url: str | None) -> ListedIncident:
    """Return the entry that lists one incident with this state."""
    facts: dict[str, Any] = msgspec.json.decode(row.facts)
    described = describe(Subject(row.kind, cast(EventState, state), row.subject, facts))
    where = {"project": place.project, "environment": place.environment}
    before = facts.get(DEPLOYMENT_BEFORE)
    return ListedIncident(
        id=row.public_id,
        kind=row.kind,
        state=cast(EventState, state),
        severity=cast(Severity, row.severity),
        title=described.title,
        started_at=format_time(row.started_at),
        resolved_at=format_optional_time(row.resolved_at),
        details=described.details,
        figures=described.figures,
        labels={name: value for name, value in where.items() if value is not None} | described.labels,
        deployment=None if before is None else msgspec.convert(before, DeploymentBefore),
        command=described.command,
        url=url,
    )


def _state(composition: Composition) -> EventState:
    if composition.firing:
        return "firing"
    return "resolved" if composition.resolved else "info"


def _title(composition: Composition, incidents: Sequence[ListedIncident], family: str) -> str:
    if composition.total == 1:
        return incidents[0].title
    others, resolved = composition.total - composition.resolved, composition.resolved
    parts = []
    if others:
        parts.append(f"{others:,} {'still open' if composition.reason == 'reminder' else 'opened'}")
    if resolved:
        parts.append(f"{resolved:,} resolved")
    return f"{family.capitalize()} incidents: {', '.join(parts)}"
