"""Heartbeats that pings create while a review is open: they do not make the review out of date."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import PING
from control_domain.configurations.addresses import Address
from control_domain.configurations.plan import Action
from control_domain.configurations.resources import ProjectState
from control_domain.tables.audit import AuditEntry
from control_domain.tables.monitors import CreatedHeartbeat, Heartbeat
from control_domain.tables.projects import Environment, Project


async def find_created_by_pings(
    session: AsyncSession, project: Project, since: datetime
) -> Collection[Address]:
    """Return the addresses of the project's heartbeats that pings, and not people, have created since this time."""
    query = (
        select(Heartbeat.id, Environment.slug, Heartbeat.name)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .where(Environment.project_id == project.id, Heartbeat.created_at >= since)
    )
    new = {
        number: ("environments", slug, "heartbeats", name)
        for number, slug, name in await session.execute(query)
    }
    if not new:
        return []
    # A row in `created_heartbeats` becomes an entry in the audit log.
    unpublished = select(CreatedHeartbeat.heartbeat_id).where(CreatedHeartbeat.heartbeat_id.in_(new))
    subjects = {f"heartbeat {number}": number for number in new}
    published = select(AuditEntry.subject).where(
        AuditEntry.account_id == project.account_id,
        AuditEntry.subject.in_(subjects),
        AuditEntry.action == "heartbeat.create",
        AuditEntry.source == PING.source,
    )
    created = {*(await session.execute(unpublished)).scalars()}
    created |= {subjects[subject] for subject in (await session.execute(published)).scalars()}
    return [new[number] for number in created]


def leave_out_unrelated(
    state: ProjectState, heartbeats: Collection[Address], actions: Iterable[Action]
) -> ProjectState:
    """Return the state without those heartbeats that the actions neither name nor remove with their environment."""
    named = {action.address for action in actions if action.kind == "heartbeat" or action.verb == "delete"}
    dropped = {address for address in heartbeats if not named & {address, address[:2]}}
    kept = {address: one for address, one in state.resources.items() if address not in dropped}
    return replace(state, resources=kept)
