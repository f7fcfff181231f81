"""What an operator sees of a deployment while it is carried out, again and again until it is final."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.clock import database_now
from control_domain.deployments.operations import LOG_LINE_COLUMNS, LOG_LINES, LogLine, tail_log
from control_domain.refusals import Refused
from control_domain.tables.deployments import Deployment, DeploymentLine, LiveRelease, Release
from control_domain.tables.runtime import EnvironmentLease
from operator_actions.actions.choose_deployment import Chosen, choose_deployment, describe_chosen
from operator_actions.actions.engines import Action, Engines, Params, read_id


async def _follow(engines: Engines, params: Params, now: datetime) -> Any:
    """The deployment as it is, and its lines. `params`: id, after (the ID of the last line that is known; left out: the
    last ones are given), lines (how many at most, 1 to 1,000).

    `seconds` is how long it takes or took, `address` where the environment answers, `is_live` whether it is what the
    environment serves, `has_deployer` whether any deployer carries out anything.
    """
    most = params.get("lines") or LOG_LINES
    after = None if params.get("after") is None else int(params["after"])
    if not isinstance(most, int) or not 1 <= most <= LOG_LINES:
        raise Refused(f"The number of lines is 1 to {LOG_LINES}.")
    async with engines.sessions() as session:
        # The status is read first: what is final has no lines that come later.
        chosen = await choose_deployment(session, read_id(params, "id"))
        told = await _describe(session, chosen, now)
        lines, is_truncated = await _read_lines(session, chosen.deployment, after, most)
        has_deployer = await session.scalar(
            select(exists().where(EnvironmentLease.leased_until > database_now()))
        )
    return {
        "deployment": told,
        "lines": [line._asdict() for line in lines],
        "truncated": is_truncated,
        "has_deployer": bool(has_deployer),
    }


async def _describe(session: AsyncSession, chosen: Chosen, now: datetime) -> dict[str, Any]:
    deployment = chosen.deployment
    address = await session.scalar(
        select(EnvironmentLease.address).where(EnvironmentLease.environment_id == deployment.environment_id)
    )
    live = (
        select(func.coalesce(LiveRelease.deployment_id, Release.deployment_id))
        .join(Release, Release.id == LiveRelease.release_id)
        .where(LiveRelease.environment_id == deployment.environment_id)
    )
    # What waited for a second person begins when that one has agreed.
    began = max(filter(None, (deployment.created_at, deployment.decided_at)))
    return {
        **describe_chosen(chosen),
        "step": deployment.step,
        "seconds": round(((deployment.finished_at or now) - began).total_seconds(), 3),
        "address": address,
        "is_live": await session.scalar(live) == deployment.id,
    }


async def _read_lines(
    session: AsyncSession, deployment: Deployment, after: int | None, most: int
) -> tuple[Sequence[LogLine], bool]:
    """Those behind `after`, or the last ones and whether there are more before them."""
    if after is None:
        lines, is_truncated = await tail_log(session, deployment.id)
        return lines[-most:], is_truncated or len(lines) > most
    query = (
        select(*LOG_LINE_COLUMNS)
        .where(DeploymentLine.deployment_id == deployment.id, DeploymentLine.id > after)
        .order_by(DeploymentLine.id)
        .limit(most)
    )
    return [LogLine._make(row) for row in await session.execute(query)], False


ACTIONS: Mapping[str, Action] = {"deployments/follow": _follow}
