"""Documents of projects and environments, as the public API returns them."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta

from control_domain.projects.listing import ListedEnvironment, ListedProject
from control_domain.tables.projects import Environment, Project


class ProjectSummary(TypedDict):
    """A project, as other documents include it."""

    id: str
    name: str
    slug: str


class EnvironmentSummary(TypedDict):
    """An environment, as other documents include it."""

    id: str
    name: str
    slug: str


class EnvironmentDocument(TypedDict):
    """An environment, as a project includes it. Replicas and state are the desired ones, not the present ones."""

    id: str
    name: str
    slug: str
    type: Literal["production", "staging", "development", "preview"]
    desired_replicas: Annotated[int, Meta(ge=1, le=20)]
    state: Literal["running", "hibernated"]


class ProjectDocument(TypedDict):
    """A project with its environments."""

    id: str
    name: str
    slug: str
    environments: list[EnvironmentDocument]


class RemovedProject(TypedDict):
    """A project that was removed."""

    id: str
    name: str
    slug: str
    deployments: Annotated[int, Meta(description="The number of deployments that were removed with it.")]


def summarize_project(project: Project) -> ProjectSummary:
    """Return the ID, name and slug of the project, as other documents include them."""
    return {"id": project.public_id, "name": project.name, "slug": project.slug}


def summarize_environment(environment: Environment) -> EnvironmentSummary:
    """Return the ID, name and slug of the environment, as other documents include them."""
    return {"id": environment.public_id, "name": environment.name, "slug": environment.slug}


def describe_environment(environment: Environment | ListedEnvironment) -> EnvironmentDocument:
    """`state` and `desired_replicas` are the desired state, not what runs now."""
    return {
        "id": environment.public_id,
        "name": environment.name,
        "slug": environment.slug,
        "type": cast(Any, environment.type),
        "desired_replicas": environment.desired_replicas,
        "state": cast(Any, environment.state),
    }


def describe_project(
    project: Project | ListedProject, environments: Iterable[ListedEnvironment]
) -> ProjectDocument:
    return {
        "id": project.public_id,
        "name": project.name,
        "slug": project.slug,
        "environments": [describe_environment(environment) for environment in environments],
    }
