"""Carries out one action of a plan, in a transaction that the caller opens and ends."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.configurations.addresses import Kind
from control_domain.configurations.effects.environment import carry_out_on_environment
from control_domain.configurations.effects.heartbeat import carry_out_on_heartbeat
from control_domain.configurations.effects.project import carry_out_on_project
from control_domain.configurations.effects.queue import carry_out_on_queue
from control_domain.configurations.effects.site import carry_out_on_site
from control_domain.configurations.effects.task import CannotCarryOut, Task, ToTell
from control_domain.configurations.plan import Action, Verb
from control_domain.refusals import Refused
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import ForbiddenMove
from pipeline_contracts.errors import Problem

__all__ = ["CannotCarryOut", "ToTell", "carry_out"]

_EFFECTS: Mapping[Kind, Callable[[Task], Awaitable[ToTell]]] = {
    "project": carry_out_on_project,
    "environment": carry_out_on_environment,
    "heartbeat": carry_out_on_heartbeat,
    "queue": carry_out_on_queue,
    "site": carry_out_on_site,
}
_DONE: Mapping[Verb, str] = {"create": "made", "update": "changed", "delete": "removed"}


async def carry_out(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    action: Action,
    actor: Actor,
    now: datetime,
    agreed: Sequence[str] = (),
) -> ToTell:
    """Create, change or remove the action's resource; return the notices for the edges to publish after the commit.

    `agreed`: the gates that a second person agreed to lower, named as by `find_lowered_gates`.

    The function is idempotent: it leaves resources alone that are already in the desired state, or already removed.
    Raises database errors, and `CannotCarryOut` if a resource is neither in the planned nor in the desired state, if
    another resource conflicts, or if the action lowers another gate. The caller then rolls the transaction back.
    """
    task = Task(session, keys, project, action, actor, now, agreed)
    try:
        told = await _EFFECTS[action.kind](task)
        await session.flush()
    except IntegrityError:
        # Its text has the statement's values.
        raise _cannot(
            task,
            "something of that name was made, or what it is in was removed, meanwhile; make a new review.",
        ) from None
    except (Refused, CannotOpen, ForbiddenMove) as error:
        raise _cannot(task, str(error)) from error
    except Problem as error:
        raise _cannot(task, error.detail) from error
    return told


def _cannot(task: Task, why: str) -> CannotCarryOut:
    return CannotCarryOut(f"{task.called} cannot be {_DONE[task.action.verb]}: {why}")
