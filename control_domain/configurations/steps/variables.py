"""Set the variables of an environment."""

from collections.abc import Mapping, Sequence

from control_domain.configurations.addresses import VARIABLES, read_address
from control_domain.configurations.plan import Change
from control_domain.configurations.project_state import build_variable_fields
from control_domain.configurations.resources import Secret, Value
from control_domain.configurations.steps.step_context import StepContext, StepFailed
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import Environment
from control_domain.variables.dotenv import MAX_VARIABLES
from control_domain.variables.operations import update_variables
from control_domain.variables.pending import OF_VALUES, find_pending_changes, merge_pending
from control_domain.variables.versions import find_newest_variables, merge_update


def is_variable(change: Change) -> bool:
    return change.field.startswith(f"{VARIABLES}.")


async def read_newest_variables(context: StepContext, environment: Environment) -> dict[str, str]:
    """Return the locked environment's variables, including changes that wait for approval if the environment requires
    it. Raises `CannotOpen`."""
    pending = await find_pending_changes(context.session, environment, OF_VALUES)
    newest = await find_newest_variables(context.session, environment)
    return merge_pending(context.keys, environment, newest, pending)


def digest_variables(context: StepContext, values: Mapping[str, str]) -> dict[str, Value]:
    """Return the variables as fields of a configuration."""
    return build_variable_fields(values, lambda value: context.keys.digest(value, context.project.public_id))


async def set_variables(
    context: StepContext, target: DeployTarget, values: Mapping[str, str], changes: Sequence[Change]
) -> None:
    """Apply the changes to `values`, the result of `read_newest_variables`. If the environment requires approval of
    variables, the changes wait for a second person."""
    values_set: dict[str, str] = {}
    removed: list[str] = []
    for change in changes:
        name = read_address(f"{context.resource_name}.{change.field}")[-1]
        if change.after is None:
            removed.append(name)
        else:
            values_set[name] = _value(context, change)
    merged = merge_update(values, values_set, frozenset(removed))
    if len(merged) > MAX_VARIABLES:
        raise StepFailed(
            f"{context.resource_name} would have {len(merged)} variables, and may have {MAX_VARIABLES}: delete some "
            "that are there already, and make a new review."
        )
    # Only the changes of this configuration: an approval covers nothing that others have proposed, and the authors of
    # all other variables stay known.
    await update_variables(
        context.session,
        context.keys,
        target,
        values_set,
        removed,
        context.actor,
        context.now,
        context.author_id,
    )


def _value(context: StepContext, change: Change) -> str:
    if not isinstance(change.after, Secret) or change.after.value is None:
        raise StepFailed(f"{context.resource_name}.{change.field} has no value to set; make a new review.")
    return change.after.value
