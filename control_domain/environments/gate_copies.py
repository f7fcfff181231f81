"""Applies the gate of an environment to the previews that have copies of its variables."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import UNKNOWN_SOURCE_ID, Environment


async def lock_variables_source(session: AsyncSession, source: Environment) -> None:
    """Lock the environment and its variables until the end of the transaction, which copies the variables.

    Call this before locking the preview: the transaction that turns a gate on locks the two in this order. SQLite does
    not lock on reads; there the transaction is the only writer once it has created or locked the preview.
    """
    query = select(Environment.id).where(Environment.id == source.id).with_for_update(read=True)
    await session.execute(query)


async def require_approval_of_copies(
    session: AsyncSession, source: DeployTarget, actor: Actor, now: datetime
) -> Sequence[str]:
    """Turn approvals on in every environment that has a copy of the variables of `source`, or whose source is unknown;
    return their slugs. The caller has locked `source` and turned its gate on."""
    gated: list[str] = []
    sources = [source]
    while sources:
        target = sources.pop()
        for copy in await _find_copies(session, target.environment):
            require_approval(session, DeployTarget(copy, target.project), target, actor, now)
            gated.append(copy.slug)
            # A preview can be opened with the variables of another preview.
            sources.append(DeployTarget(copy, target.project))
        await session.flush()
    return sorted(gated)


async def _find_copies(session: AsyncSession, source: Environment) -> Sequence[Environment]:
    query = (
        select(Environment)
        .where(
            Environment.project_id == source.project_id,
            or_(Environment.variables_of_id == source.id, Environment.variables_of_id == UNKNOWN_SOURCE_ID),
            Environment.deploys_need_approval.is_(False),
            Environment.id != source.id,
        )
        .order_by(Environment.id)
        .with_for_update(key_share=True)
    )
    return (await session.execute(query.execution_options(populate_existing=True))).scalars().all()


def require_approval(
    session: AsyncSession, target: DeployTarget, source: DeployTarget, actor: Actor, now: datetime
) -> None:
    """Make deploys wait for approval in an environment that has variables of `source`."""
    environment = target.environment
    environment.deploys_need_approval = True
    details = {"deploys_need_approval": {"from": False, "to": True}, "variables_of": source.environment.slug}
    account, subject = target.project.account_id, f"environment {environment.public_id}"
    record_audit_entry(session, actor, account, "environment.set", subject, now, details)
