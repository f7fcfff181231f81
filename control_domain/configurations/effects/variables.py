"""Variables set by a configuration: those that it says, among those that it leaves as they are."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from control_domain.configurations.addresses import VARIABLES, read_address
from control_domain.configurations.effects.task import CannotCarryOut, Task
from control_domain.configurations.plan import Change
from control_domain.configurations.present_fields import variable_fields
from control_domain.configurations.values import Secret, Value
from control_domain.projects.find import Place
from control_domain.tables.variables import VariableChange
from control_domain.variables.dotenv import MAX_VARIABLES
from control_domain.variables.operations import open_variables, present_variables, replace_variables
from pipeline_contracts.deploy_states import ChangeState


def is_variable(change: Change) -> bool:
    """Whether the field is an environment's variable."""
    return change.field.startswith(f"{VARIABLES}.")


async def read_wanted(task: Task, place: Place) -> dict[str, str]:
    """The variables that the environment, which the caller holds, is to have: those that wait for a second person, else
    its newest version. Raises `CannotOpen`."""
    environment = place.environment
    query = (
        select(VariableChange)
        .where(
            VariableChange.environment_id == environment.id,
            VariableChange.state == ChangeState.PENDING.value,
        )
        .execution_options(populate_existing=True)
    )
    pending = (await task.session.execute(query)).scalar_one_or_none()
    row = pending or await present_variables(task.session, environment)
    return open_variables(task.keys, row, environment.public_id)


def wanted_fields(task: Task, values: Mapping[str, str]) -> dict[str, Value]:
    """These variables as fields of a configuration."""
    return variable_fields(values, lambda value: task.keys.digest(value, task.project.public_id))


async def set_variables(
    task: Task, place: Place, values: Mapping[str, str], changes: Sequence[Change]
) -> None:
    """Make the changes to these variables, which are what `read_wanted` gives. Where the environment wants a second
    person they wait for one."""
    merged = dict(values)
    for change in changes:
        name = read_address(f"{task.called}.{change.field}")[-1]
        if change.after is None:
            del merged[name]
        else:
            merged[name] = _value(task, change)
    if len(merged) > MAX_VARIABLES:
        raise CannotCarryOut(
            f"{task.called} would have {len(merged)} variables, and may have {MAX_VARIABLES}: delete some that are "
            "there already, and make a new review."
        )
    await replace_variables(task.session, task.keys, place, merged, task.actor, task.now)


def _value(task: Task, change: Change) -> str:
    if not isinstance(change.after, Secret) or change.after.value is None:
        raise CannotCarryOut(
            f"{task.called}.{change.field} has no value that could be set; make a new review."
        )
    return change.after.value
