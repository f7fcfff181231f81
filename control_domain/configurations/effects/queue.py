"""Queues made and removed by a configuration: there is nothing to change in one."""

from sqlalchemy import select

from control_domain.configurations.effects.find_environment import hold_around, missing_around
from control_domain.configurations.effects.task import Task, ToTell
from control_domain.monitors.operations import create_queue
from control_domain.monitors.remove_monitors import remove_queue
from control_domain.tables.monitors import Queue
from control_domain.tables.projects import Environment


async def carry_out_on_queue(task: Task) -> ToTell:
    """Make the queue, without a key, which nobody could be told, or remove it with its keys."""
    environment = await hold_around(task)
    queue = None if environment is None else await _hold(task, environment)
    if task.action.verb == "delete":
        return ToTell() if queue is None else await _remove(task, queue)
    if environment is None:
        raise missing_around(task)
    if queue is None:
        await _create(task, environment)
    return ToTell()


async def _hold(task: Task, environment: Environment) -> Queue | None:
    query = select(Queue).where(Queue.environment_id == environment.id, Queue.name == task.action.address[-1])
    return (await task.session.execute(query.with_for_update())).scalar_one_or_none()


async def _create(task: Task, environment: Environment) -> None:
    queue = await create_queue(task.session, environment, task.action.address[-1], task.now)
    details = {"environment": environment.public_id, "name": queue.name}
    task.record("queue.create", f"queue {queue.id}", details)


async def _remove(task: Task, queue: Queue) -> ToTell:
    subject, details = f"queue {queue.id}", {"name": queue.name}
    digests = await remove_queue(task.session, queue)
    task.record("queue.remove", subject, {**details, "keys": len(digests)})
    return ToTell(forget=digests)
