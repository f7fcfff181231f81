"""The sample heartbeat, queue and site of a first start."""

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
_QUEUE_NAME = "default"
_SITE_NAME = "My site"
_SITE_ORIGIN = "http://localhost:8080"
_SITE_FIELDS = ("id", "tracker_id", "origin")


async def ensure_first_monitors(
    session: AsyncSession, environment: Environment, present: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the credentials `heartbeat` and `queue` (`{"id": 1, "key": "phr_mon_…"}`) that `present` lacks.

    Creates the monitors that do not exist, and a new key for each whose key is not in `present`. Raises
    `IntegrityError` if another process was faster.
    """
    made: dict[str, Any] = {}
    if not _is_complete(present, "heartbeat"):
        heartbeat_query = select(Heartbeat).where(
            Heartbeat.environment_id == environment.id, Heartbeat.name == _HEARTBEAT.name
        )
        heartbeat = (await session.execute(heartbeat_query)).scalar_one_or_none()
        if heartbeat is None:
            heartbeat = await create_heartbeat(session, environment, _HEARTBEAT, now)
        _, secret = await create_monitor_key(session, now, heartbeat_id=heartbeat.id)
        made["heartbeat"] = {"id": heartbeat.id, "key": secret}
    if not _is_complete(present, "queue"):
        queue_query = select(Queue).where(Queue.environment_id == environment.id, Queue.name == _QUEUE_NAME)
        queue = (await session.execute(queue_query)).scalar_one_or_none()
        if queue is None:
            queue = await create_queue(session, environment, _QUEUE_NAME, now)
        _, secret = await create_monitor_key(session, now, queue_id=queue.id)
        made["queue"] = {"id": queue.id, "key": secret}
    return made


def _is_complete(present: Mapping[str, Any], name: str) -> bool:
    known = present.get(name)
    return isinstance(known, dict) and "id" in known and "key" in known


async def ensure_first_site(
    session: AsyncSession, environment: Environment, present: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the credentials `site` if `present` lacks them: `{"id": 1, "tracker_id": "sit_…", "origin": "http://…"}`.

    `origin` is the first domain of the site. Raises `IntegrityError` if another process was faster.
    """
    known = present.get("site")
    if isinstance(known, dict) and all(field in known for field in _SITE_FIELDS):
        return {}
    query = select(Site).where(Site.project_id == environment.project_id, Site.name == _SITE_NAME)
    site = (await session.execute(query)).scalar_one_or_none()
    if site is None:
        site = await create_site(session, environment.project_id, _SITE_NAME, "UTC", [_SITE_ORIGIN], now)
    origin = list_domains(site)[0]
    return {"site": {"id": site.id, "tracker_id": site.public_id, "origin": origin}}
