"""Documents of projects and environments, as the public API returns them."""

from collections.abc import Iterable
from typing import Any

from control_domain.projects.listing import ListedEnvironment
from control_domain.tables.projects import Environment, Project


def summarize_project(project: Project) -> dict[str, str]:
    """Return the ID, name and slug of the project, as other documents include them."""
    return {"id": project.public_id, "name": project.name, "slug": project.slug}


def describe_environment(environment: Environment | ListedEnvironment) -> dict[str, Any]:
    """`state` and `desired_replicas` are the desired state, not what runs now."""
    return {
        "id": environment.public_id,
        "name": environment.name,
        "slug": environment.slug,
        "type": environment.type,
        "desired_replicas": environment.desired_replicas,
        "state": environment.state,
    }


def describe_project(project: Project, environments: Iterable[ListedEnvironment]) -> dict[str, Any]:
    return {
        "id": project.public_id,
        "name": project.name,
        "slug": project.slug,
        "environments": [describe_environment(environment) for environment in environments],
    }
