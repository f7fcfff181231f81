"""Stores and describes recorded deployments."""

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.errors import BrokenReference
from control_domain.database.statements import insert_if_absent
from control_domain.projects.operations import UNKNOWN_KEY
from control_domain.tables.projects import Environment
from control_domain.tables.recorded_deployments import RecordedDeployment
from pipeline_contracts.errors import InvalidCredential
from pipeline_contracts.times import format_time


class DeploymentReport(Struct):
    """A reported deployment, as the public API receives it."""

    deployment_id: UUID
    version: str
    service: str | None = None
    service_namespace: str | None = None
    commit_sha: str | None = None
    note: str | None = None
    deployed_at: datetime | None = None


async def record_deployment(
    session: AsyncSession, environment_public_id: str, report: DeploymentReport, now: datetime
) -> tuple[RecordedDeployment, bool]:
    """Store the reported deployment. Return it as first reported, and True if this is the first report of its ID.

    Of concurrent reports exactly one is the first. Raises `InvalidCredential` if the environment was removed, with its
    keys, after the key was checked.
    """
    # Account scope: the caller's ingest key has named the environment.
    # On Postgres the environment cannot be removed after this query; on SQLite, after the insert.
    found = select(Environment.id).where(Environment.public_id == environment_public_id)
    environment_id = (
        await session.execute(found.with_for_update(read=True, key_share=True))
    ).scalar_one_or_none()
    if environment_id is None:
        raise InvalidCredential(UNKNOWN_KEY)
    values = {
        "environment_id": environment_id,
        "deployment_id": str(report.deployment_id),
        "version": report.version,
        "service": report.service,
        "service_namespace": report.service_namespace,
        "commit_sha": report.commit_sha,
        "note": report.note,
        "deployed_at": report.deployed_at or now,
        "recorded_at": now,
    }
    statement = insert_if_absent(session, RecordedDeployment, values)
    try:
        result = await session.execute(statement.returning(RecordedDeployment.id))
    except BrokenReference:
        raise InvalidCredential(UNKNOWN_KEY) from None
    is_new = result.scalar_one_or_none() is not None
    stored = await session.execute(
        select(RecordedDeployment)
        .join(Environment, Environment.id == RecordedDeployment.environment_id)
        .where(
            Environment.public_id == environment_public_id,
            RecordedDeployment.deployment_id == str(report.deployment_id),
        )
    )
    return stored.scalar_one(), is_new


def describe_recorded(deployment: RecordedDeployment, environment_id: str) -> dict[str, Any]:
    """Return the deployment as the public API shows it."""
    return {
        "deployment_id": deployment.deployment_id,
        "version": deployment.version,
        "service": deployment.service,
        "service_namespace": deployment.service_namespace,
        "commit_sha": deployment.commit_sha,
        "note": deployment.note,
        "deployed_at": format_time(deployment.deployed_at),
        "environment_id": environment_id,
        "recorded_at": format_time(deployment.recorded_at),
    }
