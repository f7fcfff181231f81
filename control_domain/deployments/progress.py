"""When each step of a deployment began, for the people who wait for it."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta

from control_domain.tables.deployments import Deployment
from pipeline_contracts.deploy_states import DeploymentStep
from pipeline_contracts.times import format_time

_ORDER = [step.value for step in DeploymentStep]


class StepDocument(TypedDict):
    """One step of a deployment."""

    step: Annotated[
        Literal["check_out", "build", "release", "start", "switch"],
        Meta(description="`release` runs the release steps; `start` waits until the processes are healthy."),
    ]
    started_at: str
    ended_at: Annotated[str | None, Meta(description="Null while the step is in progress.")]


def reach_step(deployment: Deployment, step: DeploymentStep, now: datetime) -> dict[str, Any]:
    """Return the columns to write when a deployment begins a step.

    A step that begins again keeps its time: its duration then includes the interruption. The times of later steps are
    deleted.
    """
    begun = _read(deployment)
    earlier = _ORDER[: _ORDER.index(step.value)]
    progress = {name: begun[name] for name in earlier if name in begun}
    progress[step.value] = begun.get(step.value, format_time(now))
    return {"step": step.value, "progress": json.dumps(progress)}


def describe_steps(deployment: Deployment) -> Sequence[StepDocument]:
    """Return the steps that have begun, in order. The last step ends when the deployment ends."""
    begun = _read(deployment)
    names = [name for name in _ORDER if name in begun]
    finished = None if deployment.finished_at is None else format_time(deployment.finished_at)
    ends = [*(begun[name] for name in names[1:]), finished]
    return [
        {"step": cast(Any, name), "started_at": begun[name], "ended_at": end}
        for name, end in zip(names, ends, strict=False)
    ]


def _read(deployment: Deployment) -> dict[str, str]:
    return {} if deployment.progress is None else cast(dict[str, str], json.loads(deployment.progress))
