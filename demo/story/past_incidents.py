"""Writes the alert events of incidents that began and ended before the demo was started.

They are rows of the outbox to which changes write in their transactions; the incident worker makes incidents of them.
An incident that begins and ends in one batch is not sent to anybody.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import select

from control_domain.alert_events import record_alert_event
from control_domain.database.engine import Sessions
from control_domain.tables.projects import Environment, Project
from demo.ledger import Ledger
from demo.story.heartbeats import list_past_outages
from demo.story.releases import Timeline
from pipeline_contracts.alert_kinds import EventState
from pipeline_contracts.times import from_epoch_ms, to_epoch_ms


class _Past(NamedTuple):
    kind: str
    subject: str
    hours_ago: float
    minutes: int
    facts: Mapping[str, Any]


class _Incident(NamedTuple):
    kind: str
    subject: str
    began: datetime
    ended: datetime
    facts: Mapping[str, Any]


_LATENCY = {
    "target": "checkout",
    "name": "Check-out is slow",
    "unit": "ms",
    "threshold": 1500,
    "recovery": 1000,
}
_WAIT = {"target": "emails", "name": "E-mails wait", "unit": "s", "threshold": 600, "recovery": 120}
_PAST = (
    _Past("queue.wait", "demo queue.wait", 401, 74, {**_WAIT, "value": 1840}),
    _Past("service.latency", "demo service.latency", 260, 84, {**_LATENCY, "value": 4120}),
    _Past(
        "exception.spike",
        "demo spike",
        147,
        212,
        {
            "exception": "KeyError",
            "message": "'shipping_country'",
            "service": "checkout",
            "usual": 0.0,
            "value": 64,
            "threshold": 20,
            "window_seconds": 600,
        },
    ),
    _Past("service.latency", "demo service.latency", 75, 23, {**_LATENCY, "value": 1890}),
    _Past(
        "site.vital",
        "demo vital",
        331,
        1440,
        {"site": "Lanterns & Light", "vital": "LCP", "value": 4210, "unit": "ms", "threshold": 4000},
    ),
)


async def write_past_incidents(
    sessions: Sessions, ledger: Ledger, environment_id: str, timeline: Timeline
) -> None:
    """Add the events in one transaction, the oldest first. `environment_id` is the public ID of the shop's
    production."""
    incidents = sorted(
        [*_list_thresholds(timeline), *_list_outages(ledger, timeline)], key=lambda each: each.began
    )
    # Account scope: the environment is the one of the credentials of this installation.
    async with sessions() as session, session.begin():
        query = (
            select(Environment, Project)
            .join(Project, Project.id == Environment.project_id)
            .where(Environment.public_id == environment_id)
        )
        environment, project = (await session.execute(query)).one()
        for each in incidents:
            for state, at in _list_states(each):
                record_alert_event(
                    session,
                    each.kind,
                    each.subject,
                    state,
                    at,
                    account_id=project.account_id,
                    project_id=project.id,
                    environment_id=environment.id,
                    facts={**each.facts, "since_ms": to_epoch_ms(at)},
                )
            # Pairs of events of one subject must not overlap in the worker's order.
            await session.flush()


def _list_states(each: _Incident) -> tuple[tuple[EventState, datetime], ...]:
    return ("firing", each.began), ("resolved", each.ended)


def _list_thresholds(timeline: Timeline) -> Iterator[_Incident]:
    for past in _PAST:
        began = timeline.at(past.hours_ago)
        yield _Incident(past.kind, past.subject, began, began + timedelta(minutes=past.minutes), past.facts)


def _list_outages(ledger: Ledger, timeline: Timeline) -> Iterator[_Incident]:
    for outage in list_past_outages(timeline.began):
        job = outage.job
        facts = {
            "heartbeat": job.name,
            "period_seconds": job.schedule.period_seconds,
            "cron": job.schedule.cron,
            "timezone": job.schedule.timezone,
            "grace_ms": job.grace_seconds * 1000,
            "max_runtime_ms": job.max_runtime_seconds * 1000,
            "failures_in_row": 1,
            "failures_before_down": 1,
            "cause": "failed",
            "exit_status": job.exit_status,
            "last_success_ms": outage.last_success_ms,
        }
        number = ledger.get(f"heartbeat {job.name}")["id"]
        down, up = from_epoch_ms(outage.down_ms), from_epoch_ms(outage.up_ms)
        yield _Incident("heartbeat.down", str(number), down, up, facts)
