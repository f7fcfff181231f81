"""Finds heartbeats and queues for a caller: in the account of the caller, by number, with the required right."""

from dataclasses import dataclass

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.database.public_ids import parse_number
from control_domain.projects.find import is_callers_role, require_right
from control_domain.tables.monitors import Heartbeat, HeartbeatState, Queue, QueueState
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.errors import NotFound


@dataclass(frozen=True, slots=True)
class FoundHeartbeat:
    """A heartbeat with its state, its environment and its project."""

    monitor: Heartbeat
    state: HeartbeatState
    environment: Environment
    project: Project


@dataclass(frozen=True, slots=True)
class FoundQueue:
    """A queue with its newest snapshot (None without one), its environment and its project."""

    monitor: Queue
    state: QueueState | None
    environment: Environment
    project: Project


FoundMonitor = FoundHeartbeat | FoundQueue


def select_heartbeats(account_id: int) -> Select[Heartbeat, HeartbeatState, Environment, Project]:
    """Return the query of the account's heartbeats; its rows are the fields of `FoundHeartbeat`."""
    return (
        select(Heartbeat, HeartbeatState, Environment, Project)
        .join(HeartbeatState, HeartbeatState.heartbeat_id == Heartbeat.id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == account_id)
    )


def select_queues(account_id: int) -> Select[Queue, QueueState, Environment, Project]:
    """Return the query of the account's queues; its rows are the fields of `FoundQueue`."""
    return (
        select(Queue, QueueState, Environment, Project)
        .outerjoin(QueueState, QueueState.queue_id == Queue.id)
        .join(Environment, Environment.id == Queue.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == account_id)
    )


async def find_heartbeat(session: AsyncSession, caller: Caller, number: str, right: Right) -> FoundHeartbeat:
    """Return the heartbeat with this number.

    Raises `NotFound`, also for a heartbeat of another account, and `DeployNotAllowed`.
    """
    query = (
        select_heartbeats(caller.account.id)
        .add_columns(ProjectRole.role)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(Heartbeat.id == (parse_number(number) or 0))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such heartbeat.")
    heartbeat, state, environment, project, role = row
    require_right(caller, role, right)
    return FoundHeartbeat(heartbeat, state, environment, project)


async def find_queue(session: AsyncSession, caller: Caller, number: str, right: Right) -> FoundQueue:
    """Return the queue with this number, as `find_heartbeat` does."""
    query = (
        select_queues(caller.account.id)
        .add_columns(ProjectRole.role)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(Queue.id == (parse_number(number) or 0))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such queue.")
    queue, state, environment, project, role = row
    require_right(caller, role, right)
    return FoundQueue(queue, state, environment, project)
