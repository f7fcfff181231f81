"""Projects as other documents name them."""

from collections.abc import Iterable
from typing import Any

from control_domain.projects.listing import ListedEnvironment
from control_domain.tables.projects import Environment, Project


def summarize_project(project: Project) -> dict[str, str]:
    """The public ID, the name and the slug."""
    return {"id": project.public_id, "name": project.name, "slug": project.slug}


def describe_environment(environment: Environment | ListedEnvironment) -> dict[str, Any]:
    """`state` and `desired_replicas` are what is wanted."""
    return {
        "id": environment.public_id,
        "name": environment.name,
        "slug": environment.slug,
        "type": environment.type,
        "desired_replicas": environment.desired_replicas,
        "state": environment.state,
    }


def describe_project(project: Project, environments: Iterable[ListedEnvironment]) -> dict[str, Any]:
    """A project with its environments."""
    return {
        "id": project.public_id,
        "name": project.name,
        "slug": project.slug,
        "environments": [describe_environment(environment) for environment in environments],
    }
