"""Deployments and their logs as documents of the public API."""

from typing import Any

import orjson

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


def describe_log(deployment: Deployment, lines: bytes, is_truncated: bool) -> dict[str, Any]:
    """Return the tail of a log. `lines` is a JSON list of lines; `is_truncated`: there are earlier ones."""
    return {
        "deployment_id": deployment.id,
        "status": deployment.status,
        "lines": orjson.Fragment(lines),
        "truncated": is_truncated,
    }


def describe_line(line: LogLine) -> dict[str, Any]:
    """`stream` is stdout, stderr, or system for Pharos' own lines."""
    return {"at": line.at, "stream": line.stream, "text": line.text}
