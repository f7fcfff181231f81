"""What runs of environments, as their deployers tell it."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.clock import database_now
from control_domain.projects.describe import describe_environment, summarize_project
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, Project
from control_domain.tables.runtime import EnvironmentLease, Instance
from control_domain.workflows.document import from_json
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, EnvironmentState
from pipeline_contracts.times import format_time


async def list_runtime(
    session: AsyncSession, environment_ids: Sequence[int] | None
) -> Sequence[dict[str, Any]]:
    """The environments that have a live release, a deployment that is not finished, or anything that runs; or these,
    whatever they have.

    Of each: as the public API has it, `live` (its deployment, revision, since when, and whether pushes wait because
    somebody rolled back to it), `active_deployment`, `deployer`, `address`, `instances`, and how many processes are
    `wanted` and how many of those are `running`.
    """
    rows = (await session.execute(_query(environment_ids))).all()
    instances = await _instances(session, [row.Environment.id for row in rows])
    return [_describe(row, instances[row.Environment.id]) for row in rows]


def _query(environment_ids: Sequence[int] | None) -> Any:
    query = (
        select(
            Environment,
            Project,
            EnvironmentLease,
            LiveRelease,
            Release,
            Deployment,
            (EnvironmentLease.leased_until > database_now()).label("answers"),
        )
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Environment.id)
        .outerjoin(LiveRelease, LiveRelease.environment_id == Environment.id)
        .outerjoin(Release, Release.id == LiveRelease.release_id)
        .outerjoin(
            Deployment, (Deployment.environment_id == Environment.id) & Deployment.status.in_(ACTIVE_STATUSES)
        )
        .order_by(Project.id, Environment.position, Environment.id)
    )
    if environment_ids is not None:
        return query.where(Environment.id.in_(environment_ids))
    runs = select(Instance.id).where(Instance.environment_id == Environment.id).exists()
    return query.where(or_(Release.id.is_not(None), Deployment.id.is_not(None), runs))


async def _instances(
    session: AsyncSession, environment_ids: Sequence[int]
) -> Mapping[int, Sequence[Instance]]:
    query = (
        select(Instance)
        .where(Instance.environment_id.in_(environment_ids))
        # What takes the traffic comes first.
        .order_by(func.coalesce(Instance.port, 2**16), Instance.process, Instance.number, Instance.id)
    )
    found: dict[int, list[Instance]] = defaultdict(list)
    for instance in (await session.execute(query)).scalars():
        found[instance.environment_id].append(instance)
    return found


def _describe(row: Any, instances: Sequence[Instance]) -> dict[str, Any]:
    environment, project, lease, live, release, active, answers = row
    return {
        **describe_environment(environment),
        "number": environment.id,
        "project": summarize_project(project),
        "address": None if lease is None else lease.address,
        "live": None if live is None else _describe_live(live, release),
        "active_deployment": None if active is None else _describe_active(active),
        "deployer": None if lease is None else _describe_deployer(lease, answers),
        "wanted": _wanted(environment, release),
        "running": sum(one.state == "running" for one in instances),
        "instances": [_describe_instance(one) for one in instances],
    }


def _describe_live(live: LiveRelease, release: Release) -> dict[str, Any]:
    return {
        "deployment_id": live.deployment_id or release.deployment_id,
        "revision": release.revision,
        "since": format_time(live.since),
        "held": live.held,
    }


def _describe_active(active: Deployment) -> dict[str, Any]:
    return {"id": active.id, "status": active.status, "step": active.step}


def _describe_deployer(lease: EnvironmentLease, answers: bool) -> dict[str, Any]:
    """`answers`: whether it has said lately that it is there; `until`: until when its lease goes or went."""
    return {
        "name": lease.holder_name,
        "answers": answers,
        "until": format_time(lease.leased_until),
        "doing": lease.doing,
    }


def _describe_instance(instance: Instance) -> dict[str, Any]:
    return {
        "process": instance.process,
        "number": instance.number,
        "deployment_id": instance.deployment_id,
        "state": instance.state,
        "pid": instance.pid,
        "port": instance.port,
        "restarts": instance.restarts,
        "last_exit": instance.last_exit,
        "started_at": None if instance.started_at is None else format_time(instance.started_at),
    }


def _wanted(environment: Environment, release: Release | None) -> int | None:
    """How many processes shall run; None where the release does not tell. Of `web` the environment says how many, of
    the others the workflow document."""
    if release is None or environment.state != EnvironmentState.RUNNING:
        return 0
    try:
        processes = from_json(json.loads(release.workflow)).processes
    except KeyError:
        # A release of before releases kept it.
        return None
    return sum(
        environment.desired_replicas if name == "web" else process.replicas
        for name, process in processes.items()
    )
