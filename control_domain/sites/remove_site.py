"""A site ends, with its goals."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.refusals import Refused
from control_domain.sites.operations import SeenSite
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.credentials import digest_credential


async def remove_site(session: AsyncSession, seen: SeenSite, actor: Actor, now: datetime) -> Sequence[bytes]:
    """Delete the site and its goals; gives the digest of its tracker ID, which the edges have to forget after the
    commit.

    What was collected stays in the column store until its time is over, and is shown to nobody any more: no other site
    gets its number. Raises `Refused` where the site was removed since it was looked for.
    """
    site, project = seen.site, seen.project
    # Postgres: no goal is added from here on. SQLite: from the first delete on.
    await session.execute(select(Site.id).where(Site.id == site.id).with_for_update())
    goals = delete(Goal).where(Goal.site_id == site.id).returning(Goal.id)
    count = len((await session.execute(goals.execution_options(synchronize_session=False))).all())
    removed = delete(Site).where(Site.id == site.id).returning(Site.id)
    gone = await session.execute(removed.execution_options(synchronize_session=False))
    if gone.scalar_one_or_none() is None:
        raise Refused(f"Site {site.id} was removed by somebody else just now.")
    details = {
        "project": project.public_id,
        "name": site.name,
        "tracker_id": site.public_id,
        "domains": seen.domains,
        "goals": count,
    }
    record(session, actor, project.account_id, "site.remove", f"site {site.id}", now, details)
    await session.flush()
    return [digest_credential(site.public_id)]
