"""Finds the environment that an action is about, or is in."""

from sqlalchemy import select

from control_domain.configurations.effects.task import CannotCarryOut, Task
from control_domain.environments.hold import hold_environment
from control_domain.previews import PREVIEW
from control_domain.tables.projects import Environment
from pipeline_contracts.errors import NotFound


async def find_environment(task: Task) -> Environment | None:
    """The one whose slug is in the action's address; previews are none of a configuration's."""
    slug = task.action.address[1]
    query = select(Environment).where(
        Environment.project_id == task.project.id, Environment.slug == slug, Environment.type != PREVIEW
    )
    return (await task.session.execute(query)).scalar_one_or_none()


async def hold_around(task: Task) -> Environment | None:
    """The environment that the action's heartbeat or queue is in: nobody else changes it until the end of the
    transaction. None: it was removed, and with it all that was in it.

    It is held before what is in it, as whoever removes it does: on Postgres two would wait crosswise otherwise.
    """
    environment = await find_environment(task)
    if environment is None:
        return None
    try:
        await hold_environment(task.session, environment)
    except NotFound:
        return None
    return environment


def missing_around(task: Task) -> CannotCarryOut:
    """That there is no environment to make something in."""
    return CannotCarryOut(
        f"{task.called} cannot be made: there is no environment {task.action.address[1]} any more; make a new review."
    )
