"""The heartbeat and the queue of a first start, so that there is something to report to."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.monitors.operations import (
    HeartbeatSettings,
    create_heartbeat,
    create_monitor_key,
    create_queue,
)
from control_domain.sites.operations import create_site, list_domains
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment
from control_domain.tables.sites import Site
from pipeline_contracts.schedules import Schedule

_HEARTBEAT = HeartbeatSettings("first-heartbeat", Schedule(86_400), grace_seconds=3600)
_QUEUE = "default"


async def ensure_first_monitors(
    session: AsyncSession, environment: Environment, present: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """What `present`, the credentials so far, lacks of `heartbeat` and `queue`: `{"id": 1, "key": "phr_mon_…"}` each.

    One that is there without its key being known gets a new key. Raises `IntegrityError` where another process was
    faster.
    """
    made: dict[str, Any] = {}
    if not _is_known(present, "heartbeat"):
        named = select(Heartbeat).where(
            Heartbeat.environment_id == environment.id, Heartbeat.name == _HEARTBEAT.name
        )
        heartbeat = (await session.execute(named)).scalar_one_or_none()
        if heartbeat is None:
            heartbeat = await create_heartbeat(session, environment, _HEARTBEAT, now)
        _, secret = await create_monitor_key(session, now, heartbeat_id=heartbeat.id)
        made["heartbeat"] = {"id": heartbeat.id, "key": secret}
    if not _is_known(present, "queue"):
        of_name = select(Queue).where(Queue.environment_id == environment.id, Queue.name == _QUEUE)
        queue = (await session.execute(of_name)).scalar_one_or_none()
        if queue is None:
            queue = await create_queue(session, environment, _QUEUE, now)
        _, secret = await create_monitor_key(session, now, queue_id=queue.id)
        made["queue"] = {"id": queue.id, "key": secret}
    return made


def _is_known(present: Mapping[str, Any], name: str) -> bool:
    known = present.get(name)
    return isinstance(known, dict) and "id" in known and "key" in known


_NAME = "My site"
_ORIGIN = "http://localhost:8080"
_MEMBERS = ("id", "tracker_id", "origin")


async def ensure_first_site(
    session: AsyncSession, environment: Environment, present: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`site` where `present`, the credentials so far, lacks it: `{"id": 1, "tracker_id": "sit_…", "origin": "http://…"}`.

    `origin` is the site's first domain. Raises `IntegrityError` where another process was faster.
    """
    known = present.get("site")
    if isinstance(known, dict) and all(member in known for member in _MEMBERS):
        return {}
    named = select(Site).where(Site.project_id == environment.project_id, Site.name == _NAME)
    site = (await session.execute(named)).scalar_one_or_none()
    if site is None:
        site = await create_site(session, environment.project_id, _NAME, "UTC", [_ORIGIN], now)
    origin = list_domains(site)[0]
    return {"site": {"id": site.id, "tracker_id": site.public_id, "origin": origin}}
