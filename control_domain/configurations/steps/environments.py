"""Create, change and remove environments."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from control_domain.configurations.plan import Change, desired_fields
from control_domain.configurations.project_state import build_environment_fields
from control_domain.configurations.resources import Value
from control_domain.configurations.steps.step_context import (
    Publications,
    StepContext,
    StepFailed,
    check_created,
    check_removable,
    describe_changes,
    describe_new_fields,
    find_remaining_changes,
)
from control_domain.configurations.steps.variables import (
    digest_variables,
    is_variable,
    read_newest_variables,
    set_variables,
)
from control_domain.environments.gates import find_lowered, read_gate_fields, require_approval_of_copies
from control_domain.environments.locks import find_lock, lock_environment, unlock_environment
from control_domain.environments.operations import (
    change_environment_state,
    lock_deployer_lease,
    lock_environment_row,
    scale_environment,
)
from control_domain.environments.windows import dump_window, read_window
from control_domain.previews.operations import PREVIEW
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment, lock_project_row
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.projects import Environment
from pipeline_contracts.deploy_states import EnvironmentState, check_transition
from pipeline_contracts.errors import NotFound

_LOCK_REASON = "Locked by the configuration."
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
# These changes have audit log entries of their own, as everywhere else, unless their values are masked.
_SEPARATELY_RECORDED = ("replicas", "state")


async def find_environment(context: StepContext) -> Environment | None:
    """Return the environment in the action's address; a configuration does not see previews."""
    slug = context.action.address[1]
    query = select(Environment).where(
        Environment.project_id == context.project.id, Environment.slug == slug, Environment.type != PREVIEW
    )
    return (await context.session.execute(query)).scalar_one_or_none()


async def apply_environment_step(context: StepContext) -> Publications:
    """Create, change or remove the environment with its variables."""
    if context.action.verb == "delete":
        return await _remove(context)
    if context.action.verb == "create":
        await lock_project_row(context.session, context.project)
    environment = await find_environment(context)
    if environment is None and context.action.verb == "create":
        await _create(context)
        return Publications()
    if environment is None:
        raise context.fail_removed()
    try:
        await lock_environment_row(context.session, environment)
    except NotFound:
        raise context.fail_removed() from None
    target = DeployTarget(environment, context.project)
    values = (
        await read_newest_variables(context, environment)
        if any(map(is_variable, context.action.changes))
        else {}
    )
    current = await _read_current_fields(context, environment, values)
    if context.action.verb == "create":
        check_created(context, current)
    else:
        remaining = find_remaining_changes(context, current)
        _check_gate(context, current, {**current, **desired_fields(remaining)})
        await _change(context, target, remaining, values)
    return Publications()


def _check_gate(
    context: StepContext, current: Mapping[str, Value], after: Mapping[str, Value] | None
) -> None:
    """Raise `StepFailed` if the change lowers the environment's current gate without a second person's approval: the
    gate may have been raised since the review was applied. `after`: None if the environment is removed."""
    lowered = find_lowered(read_gate_fields(current), None if after is None else read_gate_fields(after))
    unapproved = [
        gate for gate in lowered if f"{gate} of {context.resource_name}" not in context.approved_gates
    ]
    if unapproved:
        raise StepFailed(
            f"{context.resource_name} now requires a second person, who has not agreed to take away "
            f"{' and '.join(unapproved)}; make a new review."
        )


async def _read_current_fields(
    context: StepContext, environment: Environment, values: Mapping[str, str]
) -> dict[str, Value]:
    lock = await find_lock(context.session, environment)
    return {**build_environment_fields(environment, lock is not None), **digest_variables(context, values)}


async def _create(context: StepContext) -> None:
    slug = context.action.address[1]
    desired = desired_fields(context.action.changes)
    name = str(desired.get("name") or f"{slug[:1].upper()}{slug[1:]}")
    environment = await create_environment(
        context.session, context.project, name, slug, str(desired["type"]), context.now
    )
    settings = [change for change in context.action.changes if change.field in _COLUMNS]
    details = {
        "project": context.project.public_id,
        "name": name,
        "slug": slug,
        **describe_new_fields(settings),
    }
    context.record("environment.create", _subject(environment), details)
    target = DeployTarget(environment, context.project)
    await _change_variables(context, target, context.action.changes, {})
    _set_columns(environment, settings)
    await context.session.flush()
    if desired.get("locked"):
        await lock_environment(context.session, target, _LOCK_REASON, context.actor, context.now)


async def _change_variables(
    context: StepContext, target: DeployTarget, changes: Sequence[Change], values: Mapping[str, str]
) -> None:
    """Set the variables, before the settings: the environment's previous settings decide whether they wait for a second
    person, so that one document cannot set variables and skip their approval."""
    variables = [change for change in changes if is_variable(change)]
    if variables:
        await set_variables(context, target, values, variables)


async def _change(
    context: StepContext, target: DeployTarget, remaining: Sequence[Change], values: Mapping[str, str]
) -> None:
    environment = target.environment
    await _change_variables(context, target, remaining, values)
    settings = [
        change
        for change in remaining
        if change.field in _COLUMNS and (change.is_masked or change.field not in _SEPARATELY_RECORDED)
    ]
    if settings:
        for change in settings:
            if change.field == "state":
                check_transition(EnvironmentState(environment.state), EnvironmentState(str(change.after)))
        _set_columns(environment, settings)
        context.record("environment.set", _subject(environment), describe_changes(settings))
        # The calls below read the environment again.
        await context.session.flush()
        if any(change.field == "approval.deploys" and change.after for change in settings):
            await require_approval_of_copies(context.session, target, context.actor, context.now)
    for change in remaining:
        if change not in settings and not is_variable(change):
            await _change_separately(context, target, change)


async def _change_separately(context: StepContext, target: DeployTarget, change: Change) -> None:
    session, actor, now = context.session, context.actor, context.now
    if change.field == "replicas":
        assert isinstance(change.after, int)
        await scale_environment(session, target, change.after, actor, now)
    elif change.field == "state":
        await change_environment_state(session, target, EnvironmentState(str(change.after)), actor, now)
    elif change.after:
        await lock_environment(session, target, _LOCK_REASON, actor, now)
    else:
        await unlock_environment(session, target, actor, now)


def _set_columns(environment: Environment, settings: Iterable[Change]) -> None:
    for change in settings:
        value = change.after
        if change.field == "window" and value is not None:
            assert isinstance(value, Mapping)
            value = dump_window(read_window(value))
        setattr(environment, _COLUMNS[change.field], value)


async def _remove(context: StepContext) -> Publications:
    environment = await find_environment(context)
    if environment is None:
        return Publications()
    # Lock the lease before the environment, in the order of the deployer: the other order could deadlock.
    await lock_deployer_lease(context.session, environment)
    try:
        await lock_environment_row(context.session, environment)
    except NotFound:
        return Publications()
    target = DeployTarget(environment, context.project)
    current = await _read_current_fields(
        context, environment, await read_newest_variables(context, environment)
    )
    _check_gate(context, current, None)
    check_removable(context, current)
    removed = await remove_environment(context.session, target, context.actor, context.now)
    return Publications(revoke=removed.digests)


def _subject(environment: Environment) -> str:
    return f"environment {environment.public_id}"
