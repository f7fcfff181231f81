"""The site of a first start, so that there is something to measure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.sites.operations import create_site, list_domains
from control_domain.tables.projects import Environment
from control_domain.tables.sites import Site

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
