"""The rights that the recipient of a signed link still has."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right, is_allowed, sees_all_projects
from control_domain.notifications.signed_links import LinkRecipient
from control_domain.tables.accounts import Membership
from control_domain.tables.notifications import AlertIncident, NotificationChannel
from control_domain.tables.projects import ProjectRole


async def find_link_right(
    session: AsyncSession, incident: AlertIncident, recipient: LinkRecipient
) -> Right | None:
    """Return `DEPLOY` if the recipient may acknowledge and silence the incident, `READ` if it may only see it, else
    None.

    A person's present rights count, not those at the time of the message. Everybody who reads a channel may do both
    while the channel is on.
    """
    if recipient.channel_id is not None:
        enabled = select(NotificationChannel.enabled).where(
            NotificationChannel.account_id == incident.account_id,
            NotificationChannel.id == recipient.channel_id,
        )
        return Right.DEPLOY if await session.scalar(enabled) else None
    query = (
        select(Membership.role, ProjectRole.role)
        .outerjoin(
            ProjectRole,
            (ProjectRole.person_id == Membership.person_id) & (ProjectRole.project_id == incident.project_id),
        )
        .where(
            Membership.account_id == incident.account_id,
            Membership.person_id == recipient.person_id,
        )
    )
    found = (await session.execute(query)).one_or_none()
    if found is None:
        return None
    role, project_role = found
    if incident.project_id is None:
        return Right.DEPLOY if sees_all_projects(role) else None
    rights = (Right.DEPLOY, Right.READ)
    return next((right for right in rights if is_allowed(role, project_role, right)), None)
