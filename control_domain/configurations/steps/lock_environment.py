"""Lock the environment of a monitor or a threshold."""

from control_domain.configurations.steps.environments import find_environment
from control_domain.configurations.steps.step_context import StepContext, StepFailed
from control_domain.environments.operations import lock_environment_row
from control_domain.tables.projects import Environment
from pipeline_contracts.errors import NotFound


async def lock_environment(context: StepContext) -> Environment | None:
    """Lock the environment of the action's resource; None if it was removed with its contents.

    The environment is locked before its contents, in the same order as by its removal: the other order could deadlock
    on Postgres.
    """
    environment = await find_environment(context)
    if environment is None:
        return None
    try:
        await lock_environment_row(context.session, environment)
    except NotFound:
        return None
    return environment


def fail_without_environment(context: StepContext) -> StepFailed:
    """Return the error for a resource whose environment was removed since the plan."""
    slug = context.action.address[1]
    return StepFailed(
        f"{context.resource_name} cannot be created: there is no environment {slug} any more; make a new review."
    )
