"""The processes and releases that run in environments, as reported by their deployers."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.clock import database_now
from control_domain.projects.describe import EnvironmentSummary, summarize_environment
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease, Instance
from control_domain.workflows.document import from_json
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, EnvironmentState
from pipeline_contracts.times import format_time


class ServedRelease(TypedDict):
    """The release that an environment serves."""

    deployment_id: Annotated[int, Meta(description="The deployment that made it live.")]
    revision: str
    since: str
    held: Annotated[bool, Meta(description="True after a rollback: pushes do not replace this release.")]


class ActiveDeployment(TypedDict):
    """The deployment of an environment that is not finished."""

    id: int
    status: str
    step: Annotated[str | None, Meta(description="The progress of the deployer. Null before it has begun.")]


class DeployerDocument(TypedDict):
    """The deployer that works on an environment."""

    host: str
    responds: Annotated[
        bool, Meta(description="False once its lease has ended: the report may then be out of date.")
    ]
    leased_until: str
    doing: Annotated[str | None, Meta(description="Its present work, such as a build.")]


class ProcessInstance(TypedDict):
    """One running copy of a process."""

    process: Annotated[str, Meta(description="Its name in the workflow.", examples=["web"])]
    number: Annotated[int, Meta(description="The number of the instance, from 1 in each process.")]
    deployment_id: int
    state: Annotated[
        Literal["starting", "running", "waiting", "draining"],
        Meta(
            description="`waiting`: the instance has ended and will be restarted soon. `draining`: "
            "it finishes its requests."
        ),
    ]
    pid: int | None
    port: int | None
    restarts: int
    last_exit: Annotated[
        str | None, Meta(description="How the instance ended last. Null if it has not ended yet.")
    ]
    started_at: str | None


class EnvironmentProcesses(TypedDict):
    """The processes of an environment in the last report of its deployer."""

    environment: EnvironmentSummary
    state: Annotated[Literal["running", "hibernated"], Meta(description="The desired state.")]
    address: Annotated[
        str | None, Meta(description="The URL of the environment. Null until a deployer has it.")
    ]
    live: ServedRelease | None
    active_deployment: ActiveDeployment | None
    deployer: DeployerDocument | None
    desired: Annotated[
        int | None, Meta(description="The desired number of instances. Null if the release does not say.")
    ]
    running: Annotated[int, Meta(description="The number of instances in the state `running`.")]
    instances: list[ProcessInstance]


class Runtime(NamedTuple):
    """The release, deployment and deployer of one environment; None for each that does not exist."""

    environment: Environment
    lease: EnvironmentLease | None
    live: LiveRelease | None
    release: Release | None
    active: Deployment | None
    responds: bool | None
    """True if the lease has not ended."""


async def read_runtimes(session: AsyncSession, environments: Sequence[Environment]) -> Mapping[int, Runtime]:
    """Return the runtime of each environment by its number, in one query."""
    ids = [environment.id for environment in environments]
    query = (
        select(
            Environment,
            EnvironmentLease,
            LiveRelease,
            Release,
            Deployment,
            (EnvironmentLease.leased_until > database_now()).label("responds"),
        )
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Environment.id)
        .outerjoin(LiveRelease, LiveRelease.environment_id == Environment.id)
        .outerjoin(Release, Release.id == LiveRelease.release_id)
        .outerjoin(
            Deployment, (Deployment.environment_id == Environment.id) & Deployment.status.in_(ACTIVE_STATUSES)
        )
        .where(Environment.id.in_(ids))
    )
    return {row[0].id: Runtime(*row) for row in await session.execute(query)}


async def read_instances(
    session: AsyncSession, environment_ids: Sequence[int]
) -> Mapping[int, Sequence[Instance]]:
    """Return the processes of environments, those with a port first."""
    query = (
        select(Instance)
        .where(Instance.environment_id.in_(environment_ids))
        .order_by(func.coalesce(Instance.port, 2**16), Instance.process, Instance.number, Instance.id)
    )
    found: dict[int, list[Instance]] = defaultdict(list)
    for instance in (await session.execute(query)).scalars():
        found[instance.environment_id].append(instance)
    return found


def describe_processes(runtime: Runtime, instances: Sequence[Instance]) -> EnvironmentProcesses:
    environment = runtime.environment
    return {
        "environment": summarize_environment(environment),
        "state": cast(Any, environment.state),
        "address": None if runtime.lease is None else runtime.lease.address,
        "live": describe_live(runtime),
        "active_deployment": describe_active(runtime),
        "deployer": _describe_deployer(runtime),
        "desired": count_desired(environment, runtime.release),
        "running": sum(instance.state == "running" for instance in instances),
        "instances": [_describe_instance(instance) for instance in instances],
    }


def describe_live(runtime: Runtime) -> ServedRelease | None:
    live, release = runtime.live, runtime.release
    if live is None or release is None:
        return None
    return {
        "deployment_id": live.deployment_id or release.deployment_id,
        "revision": release.revision,
        "since": format_time(live.since),
        "held": live.held,
    }


def describe_active(runtime: Runtime) -> ActiveDeployment | None:
    active = runtime.active
    return None if active is None else {"id": active.id, "status": active.status, "step": active.step}


def host_of(deployer_name: str) -> str:
    """Return the machine of a deployer. The deployer's folder is left out: only the operator may know it."""
    return deployer_name.partition(":")[0]


def _describe_deployer(runtime: Runtime) -> DeployerDocument | None:
    lease = runtime.lease
    if lease is None:
        return None
    return {
        "host": host_of(lease.holder_name),
        "responds": bool(runtime.responds),
        "leased_until": format_time(lease.leased_until),
        "doing": lease.doing,
    }


def _describe_instance(instance: Instance) -> ProcessInstance:
    return {
        "process": instance.process,
        "number": instance.number,
        "deployment_id": instance.deployment_id,
        "state": cast(Any, instance.state),
        "pid": instance.pid,
        "port": instance.port,
        "restarts": instance.restarts,
        "last_exit": instance.last_exit,
        "started_at": None if instance.started_at is None else format_time(instance.started_at),
    }


def count_desired(environment: Environment, release: Release | None) -> int | None:
    """Return the desired number of instances: the environment sets it for `web`, the workflow for other processes."""
    if release is None or environment.state != EnvironmentState.RUNNING:
        return 0
    try:
        processes = from_json(json.loads(release.workflow)).processes
    except KeyError:
        # A release of a version that did not store the workflow.
        return None
    return sum(
        environment.desired_replicas if name == "web" else process.replicas
        for name, process in processes.items()
    )
