"""Environments made, changed and removed by a configuration."""

from collections.abc import Iterable, Mapping, Sequence

from control_domain.configurations.effects.check_unchanged import check_made, check_removable, find_due
from control_domain.configurations.effects.find_environment import find_environment
from control_domain.configurations.effects.task import CannotCarryOut, Task, ToTell, tell_changes, tell_new
from control_domain.configurations.effects.variables import (
    is_variable,
    read_wanted,
    set_variables,
    wanted_fields,
)
from control_domain.configurations.plan import Change
from control_domain.configurations.present_fields import environment_fields
from control_domain.configurations.values import Value
from control_domain.environments.gate_copies import gate_copies
from control_domain.environments.gates import find_lowered, gate_in
from control_domain.environments.hold import hold_environment, hold_off_deployer
from control_domain.environments.locks import find_lock, lock_environment, unlock_environment
from control_domain.environments.operations import change_state, scale
from control_domain.environments.windows import read_window, stored_window
from control_domain.projects.find import Place
from control_domain.projects.hold import hold_project
from control_domain.projects.operations import create_environment
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.projects import Environment
from pipeline_contracts.deploy_states import EnvironmentState, check_move
from pipeline_contracts.errors import NotFound

_REASON = "Locked by the configuration."
_COLUMNS = {
    "name": "name",
    "type": "type",
    "order": "position",
    "branch": "branch",
    "replicas": "desired_replicas",
    "state": "state",
    "window": "deploy_window",
    "approval.deploys": "deploys_need_approval",
    "approval.variables": "variables_need_approval",
    "wake_on_request": "wake_on_request",
}
# They are noted in the audit log as what they are wherever else they are asked for; but not with values to be masked.
_OF_THEIR_OWN = ("replicas", "state")


async def carry_out_on_environment(task: Task) -> ToTell:
    """Make, change or remove the environment, with its variables."""
    if task.action.verb == "delete":
        return await _remove(task)
    if task.action.verb == "create":
        await hold_project(task.session, task.project)
    environment = await find_environment(task)
    if environment is None and task.action.verb == "create":
        await _create(task)
        return ToTell()
    if environment is None:
        raise task.gone()
    try:
        await hold_environment(task.session, environment)
    except NotFound:
        raise task.gone() from None
    place = Place(environment, task.project)
    values = await read_wanted(task, place) if any(map(is_variable, task.action.changes)) else {}
    present = await _present(task, environment, values)
    if task.action.verb == "create":
        check_made(task, present)
    else:
        due = find_due(task, present)
        _check_gate(task, present, {**present, **{change.field: change.after for change in due}})
        await _change(task, place, due, values)
    return ToTell()


def _check_gate(task: Task, present: Mapping[str, Value], after: Mapping[str, Value] | None) -> None:
    """Raise `CannotCarryOut` if the change lowers the environment's present gate without a second person's agreement:
    the gate may have been raised since the review was applied. `after`: None if the environment is removed."""
    lowered = find_lowered(gate_in(present), None if after is None else gate_in(after))
    unagreed = [one for one in lowered if f"{one} of {task.called}" not in task.agreed]
    if unagreed:
        raise CannotCarryOut(
            f"{task.called} wants a second person by now, who has not agreed to take away {' and '.join(unagreed)}; "
            "make a new review."
        )


async def _present(task: Task, environment: Environment, values: Mapping[str, str]) -> dict[str, Value]:
    lock = await find_lock(task.session, environment)
    return {**environment_fields(environment, lock is not None), **wanted_fields(task, values)}


async def _create(task: Task) -> None:
    slug = task.action.address[1]
    wanted = {change.field: change.after for change in task.action.changes}
    name = str(wanted.get("name") or f"{slug[:1].upper()}{slug[1:]}")
    environment = await create_environment(
        task.session, task.project, name, slug, str(wanted["type"]), task.now
    )
    settings = [change for change in task.action.changes if change.field in _COLUMNS]
    details = {"project": task.project.public_id, "name": name, "slug": slug, **tell_new(settings)}
    task.record("environment.create", _subject(environment), details)
    place = Place(environment, task.project)
    await _change_variables(task, place, task.action.changes, {})
    _set_columns(environment, settings)
    await task.session.flush()
    if wanted.get("locked"):
        await lock_environment(task.session, place, _REASON, task.actor, task.now)


async def _change_variables(
    task: Task, place: Place, changes: Sequence[Change], values: Mapping[str, str]
) -> None:
    """Before the settings: whether variables wait for a second person is said by what the environment wanted so far. By
    no document are they set and the second person left out."""
    variables = [change for change in changes if is_variable(change)]
    if variables:
        await set_variables(task, place, values, variables)


async def _change(task: Task, place: Place, due: Sequence[Change], values: Mapping[str, str]) -> None:
    environment = place.environment
    await _change_variables(task, place, due, values)
    settings = [
        change
        for change in due
        if change.field in _COLUMNS and (change.is_masked or change.field not in _OF_THEIR_OWN)
    ]
    if settings:
        for change in settings:
            if change.field == "state":
                check_move(EnvironmentState(environment.state), EnvironmentState(str(change.after)))
        _set_columns(environment, settings)
        task.record("environment.set", _subject(environment), tell_changes(settings))
        # What follows reads the environment anew.
        await task.session.flush()
        if any(change.field == "approval.deploys" and change.after for change in settings):
            await gate_copies(task.session, place, task.actor, task.now)
    for change in due:
        if change not in settings and not is_variable(change):
            await _ask_for(task, place, change)


async def _ask_for(task: Task, place: Place, change: Change) -> None:
    session, actor, now = task.session, task.actor, task.now
    if change.field == "replicas":
        assert isinstance(change.after, int)
        await scale(session, place, change.after, actor, now)
    elif change.field == "state":
        await change_state(session, place, EnvironmentState(str(change.after)), actor, now)
    elif change.after:
        await lock_environment(session, place, _REASON, actor, now)
    else:
        await unlock_environment(session, place, actor, now)


def _set_columns(environment: Environment, settings: Iterable[Change]) -> None:
    for change in settings:
        value = change.after
        if change.field == "window" and value is not None:
            assert isinstance(value, Mapping)
            value = stored_window(read_window(value))
        setattr(environment, _COLUMNS[change.field], value)


async def _remove(task: Task) -> ToTell:
    environment = await find_environment(task)
    if environment is None:
        return ToTell()
    # Before the environment is held, as by everybody who ends what is its deployer's.
    await hold_off_deployer(task.session, environment)
    try:
        await hold_environment(task.session, environment)
    except NotFound:
        return ToTell()
    place = Place(environment, task.project)
    present = await _present(task, environment, await read_wanted(task, place))
    _check_gate(task, present, None)
    check_removable(task, present)
    removed = await remove_environment(task.session, place, task.actor, task.now)
    return ToTell(forget=removed.digests)


def _subject(environment: Environment) -> str:
    return f"environment {environment.public_id}"
