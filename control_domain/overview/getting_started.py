"""The first steps in an account: a step is done once Pharos has received real data for it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta
from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from analytics_queries.overview.first_rows import find_received
from control_domain.accounts.operations import Caller
from control_domain.keys import is_live
from control_domain.overview.visible import Visible
from control_domain.projects.describe import EnvironmentSummary, ProjectSummary
from control_domain.projects.find import in_visible_projects
from control_domain.tables.accounts import Membership, Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.monitors import Heartbeat, HeartbeatState
from control_domain.tables.notifications import NotificationChannel
from control_domain.tables.projects import Environment, IngestKey, Project
from control_domain.tables.repositories import Repository
from control_domain.tables.sites import Site
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.times import format_optional_time, from_epoch_ms
from storage_backends.column_store.interface import ColumnStore

StepName = Literal[
    "repository",
    "deployment",
    "event",
    "otlp",
    "heartbeat",
    "page_view",
    "channel",
    "second_person",
]
_MAX_ENVIRONMENTS = 50
_MAX_KEYS = 20


class FirstStepDocument(TypedDict):
    """One step, and whether it is done."""

    name: Annotated[
        StepName,
        Meta(
            description="The steps: connect your own repository; deploy it; send a telemetry event, OpenTelemetry "
            "data, a heartbeat and a page view; create a notification channel; invite a second person."
        ),
    ]
    done: bool
    at: Annotated[
        str | None,
        Meta(description="When the step was done or, for data, when a stored record was received."),
    ]


class SnippetEnvironment(TypedDict):
    """An environment that a snippet can send to. Secrets of keys are shown once, when a key is created."""

    project: ProjectSummary
    environment: EnvironmentSummary
    type: str
    ingest_keys: Annotated[list[int], Meta(description="The numbers of its live ingest keys, up to 20.")]


class SnippetSite(TypedDict):
    """A site whose tracker a page can include."""

    id: int
    name: str
    project: ProjectSummary
    tracker: Annotated[str, Meta(description="The ID in the tracker's script element.")]


class GettingStartedDocument(TypedDict):
    """The first steps, and the values that their snippets need."""

    base_url: Annotated[str, Meta(description="The address of this installation.")]
    steps: list[FirstStepDocument]
    environments: Annotated[
        list[SnippetEnvironment], Meta(description="Up to 50: production environments first.")
    ]
    sites: list[SnippetSite]
    sample_project: Annotated[
        ProjectSummary | None, Meta(description="The project of the sample application, if there is one.")
    ]


async def read_database_steps(session: AsyncSession, caller: Caller) -> dict[StepName, datetime | None]:
    """Return when each step was done, for the steps that the database records; None if it is not done."""
    # Account scope: `in_visible_projects` is bound to the account.
    visible = in_visible_projects(caller)
    is_own = (Repository.is_sample.is_(False), Repository.disconnected_at.is_(None))
    repository = (
        select(func.min(Repository.created_at))
        .join(Project, Project.id == Repository.project_id)
        .where(*is_own, *visible)
    )
    deployment = (
        select(Deployment.finished_at)
        .join(Repository, Repository.id == Deployment.repository_id)
        .join(Project, Project.id == Deployment.project_id)
        .where(
            Deployment.account_id == caller.account.id,
            Deployment.status == DeploymentStatus.SUCCEEDED,
            Repository.is_sample.is_(False),
            *visible,
        )
        .order_by(Deployment.id)
        .limit(1)
    )
    signal = (
        select(HeartbeatState.last_signal_ms)
        .join(Heartbeat, Heartbeat.id == HeartbeatState.heartbeat_id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(HeartbeatState.last_signal_ms.is_not(None), *visible)
        .limit(1)
    )
    channel = select(func.min(NotificationChannel.created_at)).where(
        NotificationChannel.account_id == caller.account.id
    )
    second = (
        select(Person.created_at)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == caller.account.id)
        .order_by(Membership.id)
        .offset(1)
        .limit(1)
    )
    signal_ms = await session.scalar(signal)
    return {
        "repository": await _read_time(session, repository),
        "deployment": await _read_time(session, deployment),
        "heartbeat": None if signal_ms is None else from_epoch_ms(signal_ms),
        "channel": await _read_time(session, channel),
        "second_person": await _read_time(session, second),
    }


async def _read_time(session: AsyncSession, query: Select[Any]) -> datetime | None:
    found: datetime | None = await session.scalar(query)
    return found


async def read_stored_steps(store: ColumnStore, visible: Visible) -> dict[StepName, datetime | None]:
    """Return when each step was done, for the steps that the column store records. Raises `StorageUnavailable`."""
    environments, sites = visible.environment_ids, [site.id for site in visible.sites]
    found: dict[StepName, datetime | None] = {"event": None, "otlp": None, "page_view": None}
    if environments:
        found["event"] = await find_received(store, "events", environments=environments)
        found["otlp"] = await find_received(store, "otlp", environments=environments)
    if sites:
        found["page_view"] = await find_received(store, "pageviews", sites=sites)
    return found


def describe_steps(done: Mapping[StepName, datetime | None]) -> list[FirstStepDocument]:
    """Return the steps in their order."""
    order: tuple[StepName, ...] = (
        "repository",
        "deployment",
        "event",
        "otlp",
        "heartbeat",
        "page_view",
        "channel",
        "second_person",
    )
    return [
        {"name": name, "done": done.get(name) is not None, "at": format_optional_time(done.get(name))}
        for name in order
    ]


async def list_snippet_environments(
    session: AsyncSession, visible: Visible, now: datetime
) -> list[SnippetEnvironment]:
    """Return the environments of snippets with the numbers of their live keys."""
    shown = sorted(
        (each for each in visible.environments.values() if each.type != "preview"),
        key=lambda each: (each.type != "production", each.id),
    )[:_MAX_ENVIRONMENTS]
    query = (
        select(IngestKey)
        .where(IngestKey.environment_id.in_([each.id for each in shown]))
        .order_by(IngestKey.id.desc())
    )
    keys: dict[int, list[int]] = {}
    for key in (await session.execute(query)).scalars():
        if is_live(key, now):
            keys.setdefault(key.environment_id, []).append(key.id)
    return [
        {
            "project": visible.project_of(each).summarize(),
            "environment": each.summarize(),
            "type": each.type,
            "ingest_keys": keys.get(each.id, [])[:_MAX_KEYS],
        }
        for each in shown
    ]


async def list_snippet_sites(session: AsyncSession, visible: Visible) -> list[SnippetSite]:
    """Return the first sites with the IDs of their trackers."""
    shown = visible.sites[:_MAX_ENVIRONMENTS]
    query = select(Site.id, Site.public_id).where(Site.id.in_([site.id for site in shown]))
    trackers = {each[0]: each[1] for each in await session.execute(query)}
    return [
        {
            "id": site.id,
            "name": site.name,
            "project": visible.projects[site.project_id].summarize(),
            "tracker": trackers[site.id],
        }
        for site in shown
        if site.id in trackers
    ]


async def find_sample_project(session: AsyncSession, caller: Caller) -> ProjectSummary | None:
    """Return the project of the sample application, or None."""
    # Account scope: `in_visible_projects` is bound to the account.
    query = (
        select(Project.public_id, Project.name, Project.slug)
        .join(Repository, Repository.project_id == Project.id)
        .where(Repository.is_sample, Repository.disconnected_at.is_(None), *in_visible_projects(caller))
        .order_by(Project.id)
        .limit(1)
    )
    row = (await session.execute(query)).one_or_none()
    return None if row is None else {"id": row[0], "name": row[1], "slug": row[2]}
