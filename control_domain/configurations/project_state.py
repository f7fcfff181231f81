"""Read the current state of a project: twelve queries, regardless of its size.

The `build_…_fields` functions return the fields of database rows in the form of configuration documents.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.configurations.addresses import GOALS, PROJECT, VARIABLES, Address, write_address
from control_domain.configurations.notification_state import (
    read_recipients,
    read_rules,
    read_thresholds,
)
from control_domain.configurations.resources import CurrentResource, ProjectState, Secret, Value
from control_domain.environments.windows import load_window
from control_domain.previews.operations import PREVIEW
from control_domain.sealing import SealingKeys
from control_domain.sites.operations import list_domains
from control_domain.tables.configuration import ConfigurationRun
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, EnvironmentLock, Project
from control_domain.tables.sites import Goal, Site
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.pending import OF_VALUES, merge_pending
from pipeline_contracts.durations import format_duration
from pipeline_contracts.errors import NotFound


def build_project_fields(project: Project) -> dict[str, Value]:
    return {"name": project.name}


def build_environment_fields(environment: Environment, is_locked: bool) -> dict[str, Value]:
    """Return the environment's fields except for its variables."""
    window = load_window(environment.deploy_window)
    return {
        "name": environment.name,
        "type": environment.type,
        "order": environment.position,
        "branch": environment.branch,
        "replicas": environment.desired_replicas,
        "state": environment.state,
        "locked": is_locked,
        "window": None if window is None else window.to_document(),
        "approval.deploys": environment.deploys_need_approval,
        "approval.variables": environment.variables_need_approval,
        "wake_on_request": environment.wake_on_request,
    }


def build_variable_fields(values: Mapping[str, str], digest: Callable[[str], str]) -> dict[str, Value]:
    """Return the variables as `variables.NAME`, with the digest in place of each value."""
    return {write_address((VARIABLES, name)): Secret(digest(value)) for name, value in values.items()}


def build_heartbeat_fields(heartbeat: Heartbeat) -> dict[str, Value]:
    period = heartbeat.period_seconds
    return {
        "cron": heartbeat.cron,
        "period": None if period is None else format_duration(period),
        "timezone": heartbeat.timezone,
        "grace": format_duration(heartbeat.grace_seconds),
        "max_runtime": format_duration(heartbeat.max_runtime_seconds),
        "failures_before_down": heartbeat.failures_before_down,
        "paused": heartbeat.paused,
    }


def build_site_fields(site: Site, goals: Iterable[Goal]) -> dict[str, Value]:
    """Return the site's fields, with its goals as `goals.Signup`."""
    return {
        "domains": list_domains(site),
        "timezone": site.timezone,
        **{write_address((GOALS, goal.name)): build_goal_target(goal) for goal in goals},
    }


def build_goal_target(goal: Goal) -> dict[str, str]:
    """Return what the goal counts: `{"event": "purchase"}` or `{"path": "/welcome"}`."""
    if goal.event is not None:
        return {"event": goal.event}
    assert goal.path is not None
    return {"path": goal.path}


# Refresh rows that the session has read before.
_FRESH = {"populate_existing": True}


async def read_project_state(session: AsyncSession, keys: SealingKeys, project: Project) -> ProjectState:
    """Read the project as far as a configuration document can describe it. The caller has checked the account.

    Changes of variables that wait in an environment that requires approval are included as if they were approved.
    Variables have digests only. Raises `CannotOpen`, and `NotFound` if the project was removed in the meantime.
    """
    project, serial = await _read_project(session, project)
    environments = await _read_environments(session, project)
    variables = await _read_variables(session, project)
    resources = [CurrentResource(PROJECT, build_project_fields(project))]
    for environment, is_locked in environments:
        if environment.type == PREVIEW:
            continue
        current, pending = variables.get(environment.id, _Variables(None, ()))
        values = merge_pending(keys, environment, current, pending)
        fields = build_environment_fields(environment, is_locked)
        fields |= build_variable_fields(values, lambda value: keys.digest(value, project.public_id))
        resources.append(CurrentResource(_address(environment.slug), fields))
    resources += [*await _read_monitors(session, project), *await _read_sites(session, project)]
    recipients = await read_recipients(session, project)
    rules, other_rules = await read_rules(session, project, recipients)
    resources += [*await read_thresholds(session, project), *rules]
    return ProjectState(
        lineage=project.public_id,
        serial=serial,
        resources={resource.address: resource for resource in resources},
        awaiting_approval=frozenset(
            _address(environment.slug)
            for environment, _ in environments
            if environment.variables_need_approval
            and environment.id in variables
            and variables[environment.id].pending
        ),
        previews=frozenset(
            environment.slug for environment, _ in environments if environment.type == PREVIEW
        ),
        channels=frozenset(recipients.channels.values()),
        people=frozenset(recipients.people.values()),
        other_rules=other_rules,
    )


def _address(slug: str) -> Address:
    return ("environments", slug)


async def _read_project(session: AsyncSession, project: Project) -> tuple[Project, int]:
    """Return the refreshed project and the number of its newest configuration run."""
    newest = select(func.max(ConfigurationRun.id)).where(ConfigurationRun.project_id == project.id)
    query = select(Project, func.coalesce(newest.scalar_subquery(), 0)).where(Project.id == project.id)
    row = (await session.execute(query, execution_options=_FRESH)).one_or_none()
    if row is None:
        raise NotFound("The account has no such project.")
    return row[0], row[1]


async def _read_environments(session: AsyncSession, project: Project) -> Sequence[tuple[Environment, bool]]:
    """Return all environments, including previews, each with True if it is locked."""
    query = (
        select(Environment, EnvironmentLock.environment_id.is_not(None))
        .outerjoin(EnvironmentLock, EnvironmentLock.environment_id == Environment.id)
        .where(Environment.project_id == project.id)
    )
    return [(row[0], row[1]) for row in await session.execute(query, execution_options=_FRESH)]


def _is_lasting(project: Project) -> ColumnElement[bool]:
    """Condition for the project's environments that are not previews."""
    return (Environment.project_id == project.id) & (Environment.type != PREVIEW)


class _Variables(NamedTuple):
    """The newest version of an environment's variables, and the changes that wait for approval, the oldest first."""

    newest: VariableSet | None
    pending: Sequence[VariableChange]


async def _read_variables(session: AsyncSession, project: Project) -> Mapping[int, _Variables]:
    """Return by environment ID the variables of the project's environments that have any."""
    others = aliased(VariableSet)
    # Account scope: the environment is one of the project.
    newest = select(func.max(others.version)).where(others.environment_id == Environment.id)
    newest_sets = (
        select(VariableSet)
        .join(Environment, Environment.id == VariableSet.environment_id)
        .where(_is_lasting(project), VariableSet.version == newest.scalar_subquery())
    )
    waiting = (
        select(VariableChange)
        .join(Environment, Environment.id == VariableChange.environment_id)
        .where(
            _is_lasting(project),
            VariableChange.is_pending(),
            VariableChange.kind.in_(OF_VALUES),
        )
        .order_by(VariableChange.id)
    )
    # Read changes first: a change that is approved between the two queries is then found by the second query.
    changes: defaultdict[int, list[VariableChange]] = defaultdict(list)
    for change in (await session.execute(waiting, execution_options=_FRESH)).scalars():
        changes[change.environment_id].append(change)
    sets = {
        row.environment_id: row
        for row in (await session.execute(newest_sets, execution_options=_FRESH)).scalars()
    }
    return {
        environment_id: _Variables(sets.get(environment_id), changes.get(environment_id, ()))
        for environment_id in sets.keys() | changes.keys()
    }


async def _read_monitors(session: AsyncSession, project: Project) -> Sequence[CurrentResource]:
    heartbeats = (
        select(Heartbeat, Environment.slug)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .where(_is_lasting(project))
    )
    queues = (
        select(Queue.name, Environment.slug)
        .join(Environment, Environment.id == Queue.environment_id)
        .where(_is_lasting(project))
    )
    return [
        *(
            CurrentResource(
                (*_address(slug), "heartbeats", heartbeat.name), build_heartbeat_fields(heartbeat)
            )
            for heartbeat, slug in await session.execute(heartbeats, execution_options=_FRESH)
        ),
        *(
            CurrentResource((*_address(slug), "queues", name), {})
            for name, slug in await session.execute(queues)
        ),
    ]


async def _read_sites(session: AsyncSession, project: Project) -> Sequence[CurrentResource]:
    goals = select(Goal).join(Site, Site.id == Goal.site_id).where(Site.project_id == project.id)
    goals_by_site: defaultdict[int, list[Goal]] = defaultdict(list)
    for goal in (await session.execute(goals, execution_options=_FRESH)).scalars():
        goals_by_site[goal.site_id].append(goal)
    sites = select(Site).where(Site.project_id == project.id)
    return [
        CurrentResource(("sites", site.name), build_site_fields(site, goals_by_site[site.id]))
        for site in (await session.execute(sites, execution_options=_FRESH)).scalars()
    ]
