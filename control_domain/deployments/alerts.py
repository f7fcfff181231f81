"""Alert events of deployments, written in the transaction in which their status changes.

Nothing here can refuse the change: the events are plain inserts of short texts.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.alert_events import record_alert_event
from control_domain.tables.accounts import Person
from control_domain.tables.deployments import Deployment, DeploymentLine, LiveRelease
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import EnvironmentLease
from pipeline_contracts.alert_kinds import EventState, Severity
from pipeline_contracts.deploy_states import DeploymentStatus

_ALERTED = (DeploymentStatus.FAILED, DeploymentStatus.SUCCEEDED, DeploymentStatus.AWAITING_APPROVAL)
_REASON_LENGTH = 500
_FAILED_SUBJECT = "environment"
"""One incident for all failed deployments of an environment: the next success ends it."""
PREVIEW_SEVERITY: Severity = "warning"
"""The severity in previews of events that are critical in other environments."""
_SERVING_SEVERITY: Severity = "warning"
"""The severity of a failed deployment while the former release keeps its traffic."""


async def record_deployment_alerts(
    session: AsyncSession, deployment: Deployment, former: DeploymentStatus | None, now: datetime
) -> None:
    """Record the events of a deployment whose status was `former` before; None: the deployment is new."""
    status = DeploymentStatus(deployment.status)
    if former is not DeploymentStatus.AWAITING_APPROVAL and status not in _ALERTED:
        return
    facts = await _read_facts(session, deployment)
    if facts is None:
        # The environment was removed.
        return

    is_preview = facts["environment_type"] == "preview"

    def record(kind: str, subject: str, state: EventState, **more: str) -> None:
        record_alert_event(
            session,
            kind,
            subject,
            state,
            now,
            account_id=deployment.account_id,
            project_id=deployment.project_id,
            environment_id=deployment.environment_id,
            facts={**facts, **more},
        )

    number = deployment.id
    if former is DeploymentStatus.AWAITING_APPROVAL and status is not former:
        record("deployment.awaiting_approval", f"approval {number}", "resolved")
    match status:
        case DeploymentStatus.AWAITING_APPROVAL:
            record("deployment.awaiting_approval", f"approval {number}", "firing")
        case DeploymentStatus.FAILED:
            more = {}
            if is_preview:
                more = {"severity": PREVIEW_SEVERITY}
            elif await _is_serving(session, deployment):
                more = {"severity": _SERVING_SEVERITY}
            record("deployment.failed", _FAILED_SUBJECT, "firing", **more)
        case DeploymentStatus.SUCCEEDED:
            record("deployment.failed", _FAILED_SUBJECT, "resolved")
            record("deployment.succeeded", f"succeeded {number}", "info")
            if is_preview:
                record("preview.ready", f"ready {number}", "info")


async def _is_serving(session: AsyncSession, deployment: Deployment) -> bool:
    """Return True if the environment of the deployment has a live release."""
    query = select(LiveRelease.release_id).where(LiveRelease.environment_id == deployment.environment_id)
    return (await session.execute(query)).first() is not None


async def _read_facts(session: AsyncSession, deployment: Deployment) -> dict[str, Any] | None:
    query = (
        select(Environment.type, Environment.slug, Project.slug, EnvironmentLease.address, Person.name)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Environment.id)
        .outerjoin(Person, Person.id == deployment.asked_by_id)
        .where(Environment.id == deployment.environment_id)
    )
    found = (await session.execute(query)).first()
    if found is None:
        return None
    environment_type, environment, project, address, asked_by = found
    begun, ended = deployment.decided_at or deployment.created_at, deployment.finished_at
    return {
        "number": deployment.id,
        "status": deployment.status,
        "environment": f"{project}/{environment}",
        "environment_type": environment_type,
        "address": address,
        "revision": deployment.revision,
        "ref": deployment.ref,
        "commit_subject": deployment.commit_subject,
        "commit_author": deployment.commit_author,
        "trigger": deployment.trigger,
        "note": deployment.note,
        "asked_by": asked_by,
        "step": deployment.step,
        "reason": await _read_reason(session, deployment),
        "duration_seconds": None if ended is None else max(0, round((ended - begun).total_seconds())),
    }


async def _read_reason(session: AsyncSession, deployment: Deployment) -> str | None:
    """Return the last line that Pharos itself has written to the log: it says why the deployment failed or waits."""
    if deployment.status not in (DeploymentStatus.FAILED, DeploymentStatus.AWAITING_APPROVAL):
        return None
    query = (
        select(DeploymentLine.text)
        .where(DeploymentLine.deployment_id == deployment.id, DeploymentLine.stream == "system")
        .order_by(DeploymentLine.id.desc())
        .limit(1)
    )
    line = (await session.execute(query)).scalar_one_or_none()
    return None if line is None else line[:_REASON_LENGTH]
