"""Deployments and their logs as documents of the public API."""

from collections.abc import Sequence
from typing import Any

from control_domain.deployments.listing import ListedDeployment
from control_domain.deployments.operations import LogLine
from control_domain.tables.deployments import Deployment
from pipeline_contracts.times import format_time


def describe_deployment(
    deployment: Deployment | ListedDeployment, environment_id: str | None
) -> dict[str, Any]:
    """`environment_id` is the public one; null once the environment was removed."""
    return {
        "id": deployment.id,
        "repository_id": deployment.repository_id,
        "environment_id": environment_id,
        "status": deployment.status,
        "trigger": deployment.trigger,
        "revision": deployment.revision,
        "ref": deployment.ref,
        "promoted_from_build_id": deployment.promoted_from_id,
        "created_at": format_time(deployment.created_at),
        "finished_at": None if deployment.finished_at is None else format_time(deployment.finished_at),
    }


def describe_log(deployment: Deployment, lines: Sequence[LogLine], is_truncated: bool) -> dict[str, Any]:
    """Return the tail of a log. `is_truncated`: there are earlier lines."""
    return {
        "deployment_id": deployment.id,
        "status": deployment.status,
        "lines": [{"at": at, "stream": stream, "text": text} for _, at, stream, text in lines],
        "truncated": is_truncated,
    }


def describe_line(line: LogLine) -> dict[str, Any]:
    """`stream` is stdout, stderr, or system for Pharos' own lines."""
    return {"at": line.at, "stream": line.stream, "text": line.text}
