"""Reads a project as it is: eight queries, however much is in it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.configurations.addresses import PROJECT, Address
from control_domain.configurations.present_fields import (
    environment_fields,
    heartbeat_fields,
    project_fields,
    site_fields,
    variable_fields,
)
from control_domain.configurations.state import Present, ProjectState
from control_domain.previews import PREVIEW
from control_domain.sealing import SealingKeys
from control_domain.tables.configuration import Application
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, EnvironmentLock, Project
from control_domain.tables.sites import Goal, Site
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.operations import open_variables
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.errors import NotFound

# What the database has now, even where the session has read the same rows before.
_ANEW = {"populate_existing": True}


async def read_state(session: AsyncSession, keys: SealingKeys, project: Project) -> ProjectState:
    """The project as far as a configuration document can say anything of it. The caller has found it in their account.

    Where new variables of an environment wait for a second person, those are the environment's here. Of a variable
    there is the digest alone. Raises `CannotOpen`, and `NotFound` where the project was removed since it was found.
    """
    project, serial = await _read_project(session, project)
    environments = await _read_environments(session, project)
    variables = await _read_variables(session, project)
    found = [Present(PROJECT, project_fields(project))]
    for environment, is_locked in environments:
        if environment.type == PREVIEW:
            continue
        values = open_variables(keys, variables.get(environment.id), environment.public_id)
        fields = environment_fields(environment, is_locked)
        fields |= variable_fields(values, lambda value: keys.digest(value, project.public_id))
        found.append(Present(_address(environment.slug), fields))
    found += [*await _read_monitors(session, project), *await _read_sites(session, project)]
    return ProjectState(
        lineage=project.public_id,
        serial=serial,
        resources={present.address: present for present in found},
        awaiting_approval=frozenset(
            _address(environment.slug)
            for environment, _ in environments
            if isinstance(variables.get(environment.id), VariableChange)
        ),
        previews=frozenset(
            environment.slug for environment, _ in environments if environment.type == PREVIEW
        ),
    )


def _address(slug: str) -> Address:
    return ("environments", slug)


async def _read_project(session: AsyncSession, project: Project) -> tuple[Project, int]:
    """The project anew, and the number of its newest application."""
    newest = select(func.max(Application.id)).where(Application.project_id == project.id)
    query = select(Project, func.coalesce(newest.scalar_subquery(), 0)).where(Project.id == project.id)
    row = (await session.execute(query, execution_options=_ANEW)).one_or_none()
    if row is None:
        raise NotFound("The account has no such project.")
    return row[0], row[1]


async def _read_environments(session: AsyncSession, project: Project) -> Sequence[tuple[Environment, bool]]:
    """All of them, previews as well, and whether each is locked."""
    query = (
        select(Environment, EnvironmentLock.environment_id.is_not(None))
        .outerjoin(EnvironmentLock, EnvironmentLock.environment_id == Environment.id)
        .where(Environment.project_id == project.id)
    )
    return [(row[0], row[1]) for row in await session.execute(query, execution_options=_ANEW)]


def _is_kept(project: Project) -> ColumnElement[bool]:
    """That an environment is the project's, and no preview."""
    return (Environment.project_id == project.id) & (Environment.type != PREVIEW)


async def _read_variables(
    session: AsyncSession, project: Project
) -> Mapping[int, VariableSet | VariableChange]:
    """The newest version by the environment's ID, or else the change that waits."""
    others = aliased(VariableSet)
    newest = select(func.max(others.version)).where(others.environment_id == Environment.id)
    present = (
        select(VariableSet)
        .join(Environment, Environment.id == VariableSet.environment_id)
        .where(_is_kept(project), VariableSet.version == newest.scalar_subquery())
    )
    waiting = (
        select(VariableChange)
        .join(Environment, Environment.id == VariableChange.environment_id)
        .where(_is_kept(project), VariableChange.state == ChangeState.PENDING)
    )
    # In this order: a change that is approved in between must not be missed on both sides.
    changes = {
        one.environment_id: one for one in (await session.execute(waiting, execution_options=_ANEW)).scalars()
    }
    sets = {
        one.environment_id: one for one in (await session.execute(present, execution_options=_ANEW)).scalars()
    }
    return {**sets, **changes}


async def _read_monitors(session: AsyncSession, project: Project) -> Sequence[Present]:
    heartbeats = (
        select(Heartbeat, Environment.slug)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .where(_is_kept(project))
    )
    queues = (
        select(Queue.name, Environment.slug)
        .join(Environment, Environment.id == Queue.environment_id)
        .where(_is_kept(project))
    )
    return [
        *(
            Present((*_address(slug), "heartbeats", heartbeat.name), heartbeat_fields(heartbeat))
            for heartbeat, slug in await session.execute(heartbeats, execution_options=_ANEW)
        ),
        *(Present((*_address(slug), "queues", name), {}) for name, slug in await session.execute(queues)),
    ]


async def _read_sites(session: AsyncSession, project: Project) -> Sequence[Present]:
    goals = select(Goal).join(Site, Site.id == Goal.site_id).where(Site.project_id == project.id)
    of: defaultdict[int, list[Goal]] = defaultdict(list)
    for goal in (await session.execute(goals, execution_options=_ANEW)).scalars():
        of[goal.site_id].append(goal)
    sites = select(Site).where(Site.project_id == project.id)
    return [
        Present(("sites", site.name), site_fields(site, of[site.id]))
        for site in (await session.execute(sites, execution_options=_ANEW)).scalars()
    ]
