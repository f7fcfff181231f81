"""Set the variables of an environment."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from control_domain.configurations.addresses import VARIABLES, read_address
from control_domain.configurations.plan import Change
from control_domain.configurations.project_state import build_variable_fields
from control_domain.configurations.resources import Secret, Value
from control_domain.configurations.steps.step_context import StepContext, StepFailed
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableChange
from control_domain.variables.dotenv import MAX_VARIABLES
from control_domain.variables.operations import find_newest_variables, open_variables, replace_variables
from pipeline_contracts.deploy_states import ChangeState


def is_variable(change: Change) -> bool:
    return change.field.startswith(f"{VARIABLES}.")


async def read_newest_variables(context: StepContext, environment: Environment) -> dict[str, str]:
    """Return the locked environment's variables that wait for a second person's approval, else its current ones.
    Raises `CannotOpen`."""
    query = (
        select(VariableChange)
        .where(
            VariableChange.environment_id == environment.id,
            VariableChange.state == ChangeState.PENDING.value,
        )
        .execution_options(populate_existing=True)
    )
    pending = (await context.session.execute(query)).scalar_one_or_none()
    row = pending or await find_newest_variables(context.session, environment)
    return open_variables(context.keys, row, environment.public_id)


def digest_variables(context: StepContext, values: Mapping[str, str]) -> dict[str, Value]:
    """Return the variables as fields of a configuration."""
    return build_variable_fields(values, lambda value: context.keys.digest(value, context.project.public_id))


async def set_variables(
    context: StepContext, target: DeployTarget, values: Mapping[str, str], changes: Sequence[Change]
) -> None:
    """Apply the changes to `values`, the result of `read_newest_variables`. If the environment requires approval of
    variables, they wait for a second person."""
    merged = dict(values)
    for change in changes:
        name = read_address(f"{context.resource_name}.{change.field}")[-1]
        if change.after is None:
            del merged[name]
        else:
            merged[name] = _value(context, change)
    if len(merged) > MAX_VARIABLES:
        raise StepFailed(
            f"{context.resource_name} would have {len(merged)} variables, and may have {MAX_VARIABLES}: delete some "
            "that are there already, and make a new review."
        )
    await replace_variables(context.session, context.keys, target, merged, context.actor, context.now)


def _value(context: StepContext, change: Change) -> str:
    if not isinstance(change.after, Secret) or change.after.value is None:
        raise StepFailed(
            f"{context.resource_name}.{change.field} has no value that could be set; make a new review."
        )
    return change.after.value
