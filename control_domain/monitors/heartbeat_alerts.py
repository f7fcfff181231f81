"""Alert events of heartbeats that people change: a pause, a new schedule or a removal may begin or end an incident."""

from datetime import datetime

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.monitors.domain import to_domain
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from control_domain.tables.projects import Environment, Project
from pipeline_contracts import heartbeat_states
from pipeline_contracts.heartbeat_alerts import HeartbeatAlert, take_alert, take_removal_alert
from pipeline_contracts.times import from_epoch_ms, to_epoch_ms


async def record_state_alert(
    session: AsyncSession,
    heartbeat: Heartbeat,
    row: HeartbeatState,
    updated: heartbeat_states.Heartbeat,
) -> None:
    """Record the event of a change by a person, if the state `updated` is another one than was alerted."""
    alert = take_alert(updated)
    row.alerted = updated.alerted
    if alert is None:
        return
    owner = (
        select(Project.account_id, Project.id)
        .join(Environment, Environment.project_id == Project.id)
        .where(Environment.id == heartbeat.environment_id)
    )
    account_id, project_id = (await session.execute(owner)).one()
    _record(session, alert, heartbeat, account_id, project_id)


async def record_removal_alerts(session: AsyncSession, condition: ColumnElement[bool], now: datetime) -> None:
    """Record the end of the incidents of the heartbeats that match the condition, before they are deleted."""
    # Account scope: the condition of the callers names a monitor or an environment.
    query = (
        select(Heartbeat, HeartbeatState, Project.account_id, Project.id)
        .join(HeartbeatState, HeartbeatState.heartbeat_id == Heartbeat.id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(condition, HeartbeatState.alerted.is_not(None))
    )
    for heartbeat, row, account_id, project_id in await session.execute(query):
        alert = take_removal_alert(to_domain(heartbeat, row), to_epoch_ms(now))
        if alert is not None:
            _record(session, alert, heartbeat, account_id, project_id)


def _record(
    session: AsyncSession, alert: HeartbeatAlert, heartbeat: Heartbeat, account_id: int, project_id: int
) -> None:
    record_alert_event(
        session,
        alert.kind,
        str(heartbeat.id),
        alert.state,
        from_epoch_ms(alert.at_ms),
        account_id=account_id,
        project_id=project_id,
        environment_id=heartbeat.environment_id,
        facts=alert.facts,
    )
