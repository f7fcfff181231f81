"""Apply one step of a configuration run within the caller's transaction."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.configurations.addresses import Kind
from control_domain.configurations.plan import Action, Verb
from control_domain.configurations.project_state import build_project_fields
from control_domain.configurations.steps.environments import apply_environment_step
from control_domain.configurations.steps.monitors import apply_heartbeat_step, apply_queue_step
from control_domain.configurations.steps.rules import apply_rule_step
from control_domain.configurations.steps.sites import apply_site_step
from control_domain.configurations.steps.step_context import (
    Publications,
    StepContext,
    StepFailed,
    describe_changes,
    find_remaining_changes,
)
from control_domain.configurations.steps.thresholds import apply_threshold_step
from control_domain.projects.operations import lock_project_row
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import ForbiddenTransition
from pipeline_contracts.errors import Problem


async def apply_project_step(context: StepContext) -> Publications:
    """Rename the project: configurations can change nothing else about it."""
    project = context.project
    if context.action.verb == "delete":
        raise StepFailed("A configuration cannot remove a project: remove the project directly.")
    await lock_project_row(context.session, project)
    await context.session.refresh(project)
    changes = find_remaining_changes(context, build_project_fields(project))
    if changes:
        for change in changes:
            setattr(project, change.field, change.after)
        context.record("project.set", f"project {project.public_id}", describe_changes(changes))
    return Publications()


_APPLY_BY_KIND: Mapping[Kind, Callable[[StepContext], Awaitable[Publications]]] = {
    "project": apply_project_step,
    "environment": apply_environment_step,
    "heartbeat": apply_heartbeat_step,
    "queue": apply_queue_step,
    "threshold": apply_threshold_step,
    "site": apply_site_step,
    "rule": apply_rule_step,
}
_DONE: Mapping[Verb, str] = {"create": "created", "update": "changed", "delete": "removed"}


async def apply_step(
    session: AsyncSession,
    keys: SealingKeys,
    project: Project,
    action: Action,
    actor: Actor,
    now: datetime,
    approved_gates: Sequence[str] = (),
    author_id: int | None = None,
) -> Publications:
    """Create, change or remove the action's resource; return what to publish to the edges after the commit.

    `approved_gates`: the gates that a second person approved to lower, named as by `find_lowered_gates`. `author_id`:
    the author of the document, if this is not the actor.

    The function is idempotent: it leaves resources alone that are already in the desired state, or already removed.
    Raises database errors, and `StepFailed` if a resource is neither in the planned nor in the desired state, if
    another resource conflicts, or if the action lowers another gate. The caller then rolls the transaction back.
    """
    context = StepContext(session, keys, project, action, actor, now, approved_gates, author_id)
    try:
        publications = await _APPLY_BY_KIND[action.kind](context)
        await session.flush()
    except IntegrityError:
        # Not chained: its text contains the values of the statement.
        raise _fail(
            context,
            "another resource of that name was created, or its parent was removed, meanwhile; make a new review.",
        ) from None
    except (CannotOpen, ForbiddenTransition) as error:
        raise _fail(context, str(error)) from error
    except Problem as error:
        raise _fail(context, error.detail) from error
    return publications


def _fail(context: StepContext, why: str) -> StepFailed:
    return StepFailed(f"{context.resource_name} cannot be {_DONE[context.action.verb]}: {why}")
