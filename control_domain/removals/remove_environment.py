"""An environment ends, with all that belongs to it. Its deployments and their logs stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.environments.operations import lock_deployer_lease, lock_environment_row
from control_domain.monitors.remove_monitors import remove_monitors
from control_domain.projects.find import DeployTarget
from control_domain.refusals import Refused
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, EnvironmentLock, IngestKey
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_domain.tables.runtime import EnvironmentLease, Instance
from control_domain.tables.variables import ProtectedVariable, VariableChange, VariableSet
from control_domain.tables.webhooks import ClosingPreview, WaitingPush
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus


@dataclass(frozen=True, slots=True)
class RemovedEnvironment:
    """What went with an environment."""

    digests: Sequence[bytes]
    """Of the keys that the edges have to forget, once this is committed."""
    counts: dict[str, int]
    """`keys`, `heartbeats`, `queues`, and the `canceled` deployments that had waited for a second person."""


async def remove_environment(
    session: AsyncSession,
    target: DeployTarget,
    actor: Actor,
    now: datetime,
    agreed: Mapping[str, Any] | None = None,
) -> RemovedEnvironment:
    """Delete the environment, its keys, monitors with their states, recorded deployments, variables, releases, lock,
    and the pushes that wait for it. Deployments stay without it; those that wait for a second person are canceled.

    `agreed`: what the audit log is to say of the second person.

    Raises `Refused` while a deployment of it is active, and `NotFound` where it was removed since it was looked for.
    """
    environment = target.environment
    await _close(session, environment)
    canceled = await _end_deployments(session, environment, now)
    digests, counts = await _remove_monitors_and_keys(session, environment)
    for query in _of_deploy(environment.id):
        await session.execute(query)
    await session.execute(delete(Environment).where(Environment.id == environment.id))
    counts = {**counts, "canceled": canceled}
    details = {
        "project": target.project.public_id,
        "name": environment.name,
        "slug": environment.slug,
        **counts,
        **(agreed or {}),
    }
    subject = f"environment {environment.public_id}"
    record_audit_entry(session, actor, target.project.account_id, "environment.remove", subject, now, details)
    await session.flush()
    return RemovedEnvironment(digests, counts)


async def _close(session: AsyncSession, environment: Environment) -> None:
    """Let nothing new refer to the environment, nor what refers to it change.

    On Postgres a row that refers to it waits for this. SQLite lets one transaction write at a time, and this one is the
    one from here on.
    """
    await lock_deployer_lease(session, environment)
    await lock_environment_row(session, environment)
    await session.execute(select(Environment.id).where(Environment.id == environment.id).with_for_update())


async def _end_deployments(session: AsyncSession, environment: Environment, now: datetime) -> int:
    """Take the environment from its deployments; gives how many were canceled."""
    mine = Deployment.environment_id == environment.id
    open_ones = (*ACTIVE_STATUSES, DeploymentStatus.AWAITING_APPROVAL)
    query = select(Deployment).where(mine, Deployment.status.in_(open_ones)).with_for_update()
    waiting = (await session.execute(query)).scalars().all()
    for deployment in waiting:
        if deployment.status in ACTIVE_STATUSES:
            raise Refused(
                f"Deployment {deployment.id} of this environment is {deployment.status}: wait until it is finished, "
                f"or end it with `pharos cancel {deployment.id}`."
            )
    for deployment in waiting:
        await transition_deployment(session, deployment, DeploymentStatus.CANCELED, now)
        add_log_line(session, deployment.id, "Canceled: the environment was removed.", now)
    await session.flush()
    variables = select(VariableSet.id).where(VariableSet.environment_id == environment.id)
    approved = Deployment.approved_variables_id.in_(variables)
    await session.execute(_blank(approved, approved_variables_id=None))
    await session.execute(_blank(mine, environment_id=None))
    return len(waiting)


def _blank(condition: ColumnElement[bool], **values: Any) -> Any:
    # Account scope: the conditions of the callers name the environment.
    return update(Deployment).where(condition).values(**values).execution_options(synchronize_session=False)


async def _remove_monitors_and_keys(
    session: AsyncSession, environment: Environment
) -> tuple[list[bytes], dict[str, int]]:
    monitors = await remove_monitors(session, environment)
    ingest_keys = delete(IngestKey).where(IngestKey.environment_id == environment.id)
    found = await session.execute(ingest_keys.returning(IngestKey.digest))
    digests = [*found.scalars(), *(digest for removed in monitors.values() for digest in removed.digests)]
    return digests, {"keys": len(digests), **{name: removed.count for name, removed in monitors.items()}}


def _of_deploy(environment_id: int) -> list[Any]:
    """Deletes in an order in which nothing is left that refers to what is gone."""
    tables = (
        *(Instance, EnvironmentLease, LiveRelease, Release, VariableChange, VariableSet),
        *(RecordedDeployment, EnvironmentLock, ProtectedVariable, WaitingPush, ClosingPreview),
    )
    return [
        delete(table)
        .where(table.environment_id == environment_id)
        .execution_options(synchronize_session=False)
        for table in tables
    ]
