"""Removes an environment with everything that belongs to it, except its deployments and their logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.environments.gates import check_lowers_nothing, find_lowered, read_gate
from control_domain.environments.operations import lock_deployer_lease, lock_environment_row
from control_domain.monitors.remove_monitors import remove_monitors
from control_domain.projects.find import DeployTarget
from control_domain.removals.end_incidents import end_environment_incidents
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.notifications import AlertThreshold, NotificationRule
from control_domain.tables.projects import Environment, EnvironmentLock, EnvironmentPingKey, IngestKey
from control_domain.tables.recorded_deployments import RecordedDeployment
from control_domain.tables.runtime import EnvironmentLease, Instance
from control_domain.tables.variables import ProtectedVariable, VariableChange, VariableSet
from control_domain.tables.webhooks import ClosingPreview, WaitingPush
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.errors import DeployRunning
from pipeline_contracts.heartbeat_names import digest_heartbeat_name


@dataclass(frozen=True, slots=True)
class RemovedEnvironment:
    """The keys and counts of rows that were removed together with an environment."""

    digests: Sequence[bytes]
    """Digests of the keys to revoke in the key directory after the commit."""
    counts: dict[str, int]
    """`keys`, `heartbeats`, `queues`, and the `canceled` deployments that waited for approval."""


async def remove_ungated_environment(
    session: AsyncSession, target: DeployTarget, actor: Actor, now: datetime
) -> RemovedEnvironment:
    """Call `remove_environment` for one person alone. Raises `SecondPersonRequired` if the environment requires
    approvals."""
    await lock_deployer_lease(session, target.environment)
    await lock_environment_row(session, target.environment)
    check_lowers_nothing(target.environment, find_lowered(read_gate(target.environment), None))
    return await remove_environment(session, target, actor, now)


async def remove_environment(
    session: AsyncSession,
    target: DeployTarget,
    actor: Actor,
    now: datetime,
    agreed: Mapping[str, Any] | None = None,
) -> RemovedEnvironment:
    """Delete the environment, its keys, monitors with their states, recorded deployments, variables, releases, lock,
    and the pushes that wait for it. Deployments are kept; those that wait for approval are canceled.

    `agreed`: audit details about the second person who has agreed to remove an environment that requires approvals.

    Raises `DeployRunning` while a deployment of it is active, and `NotFound` if it was removed meanwhile.
    """
    environment = target.environment
    await _lock(session, environment)
    canceled = await _end_deployments(session, environment, now)
    digests, counts = await _remove_monitors_and_keys(session, environment, now)
    await end_environment_incidents(session, environment, target.project, now)
    for statement in _deploy_deletes(environment.id):
        await session.execute(statement)
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


async def _lock(session: AsyncSession, environment: Environment) -> None:
    """Keep other transactions from adding or changing rows that refer to the environment.

    On Postgres, an insert that refers to the environment waits for FOR UPDATE. On SQLite, this transaction is the only
    writer after this statement.
    """
    await lock_deployer_lease(session, environment)
    await lock_environment_row(session, environment)
    await session.execute(select(Environment.id).where(Environment.id == environment.id).with_for_update())


async def _end_deployments(session: AsyncSession, environment: Environment, now: datetime) -> int:
    """Detach the deployments of the environment and return how many were canceled."""
    is_of_environment = Deployment.environment_id == environment.id
    unfinished = (*ACTIVE_STATUSES, DeploymentStatus.AWAITING_APPROVAL)
    query = select(Deployment).where(is_of_environment, Deployment.status.in_(unfinished)).with_for_update()
    waiting = (await session.execute(query)).scalars().all()
    for deployment in waiting:
        if deployment.status in ACTIVE_STATUSES:
            raise DeployRunning(
                f"Deployment {deployment.id} of this environment is {deployment.status}: wait until it is finished, or "
                "cancel it.",
                members={"active_deployment_id": deployment.id},
            )
    for deployment in waiting:
        await transition_deployment(session, deployment, DeploymentStatus.CANCELED, now)
        add_log_line(session, deployment.id, "Canceled: the environment was removed.", now)
    await session.flush()
    variables = select(VariableSet.id).where(VariableSet.environment_id == environment.id)
    approved = Deployment.approved_variables_id.in_(variables)
    await session.execute(_set_columns(approved, approved_variables_id=None))
    await session.execute(_set_columns(is_of_environment, environment_id=None))
    return len(waiting)


def _set_columns(condition: ColumnElement[bool], **values: Any) -> Any:
    # Account scope: the conditions of the callers name the environment.
    return update(Deployment).where(condition).values(**values).execution_options(synchronize_session=False)


async def _remove_monitors_and_keys(
    session: AsyncSession, environment: Environment, now: datetime
) -> tuple[list[bytes], dict[str, int]]:
    monitors = await remove_monitors(session, environment, now)
    digests = [digest for removed in monitors.values() for digest in removed.digests]
    for table in (IngestKey, EnvironmentPingKey):
        keys = delete(table).where(table.environment_id == environment.id)
        digests += (await session.execute(keys.returning(table.digest))).scalars()
    counts = {"keys": len(digests), **{name: removed.count for name, removed in monitors.items()}}
    # No environment gets this public ID again, so none of these names becomes valid again.
    names = monitors["heartbeats"].names
    return [*digests, *(digest_heartbeat_name(environment.public_id, name) for name in names)], counts


def _deploy_deletes(environment_id: int) -> list[Any]:
    """Return the DELETE statements of rows about deployments, ordered by their foreign keys."""
    tables = (
        *(Instance, EnvironmentLease, LiveRelease, Release, VariableChange, VariableSet),
        *(
            RecordedDeployment,
            EnvironmentLock,
            ProtectedVariable,
            WaitingPush,
            ClosingPreview,
            ExceptionStatus,
            AlertThreshold,
            NotificationRule,
        ),
    )
    return [
        delete(table)
        .where(table.environment_id == environment_id)
        .execution_options(synchronize_session=False)
        for table in tables
    ]
