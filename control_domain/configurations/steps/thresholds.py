"""Create, change and remove thresholds."""

from sqlalchemy import select

from control_domain.configurations.plan import desired_fields
from control_domain.configurations.resources import FIELDS
from control_domain.configurations.steps.lock_environment import fail_without_environment, lock_environment
from control_domain.configurations.steps.step_context import (
    Publications,
    StepContext,
    check_created,
    check_removable,
    find_remaining_changes,
)
from control_domain.configurations.threshold_fields import build_threshold_fields, read_threshold_fields
from control_domain.notifications.thresholds import (
    FoundThreshold,
    add_threshold,
    delete_threshold,
    lock_threshold,
    update_threshold,
)
from control_domain.projects.find import DeployTarget
from control_domain.tables.notifications import AlertThreshold
from control_domain.tables.projects import Environment
from pipeline_contracts.errors import NotFound


async def apply_threshold_step(context: StepContext) -> Publications:
    """Create or change the threshold, or remove it and end its incident."""
    verb = context.action.verb
    environment = await lock_environment(context)
    found = None if environment is None else await _lock_threshold(context, environment)
    if verb == "delete":
        if found is not None:
            check_removable(context, build_threshold_fields(found.threshold))
            await delete_threshold(context.session, found, context.actor, context.now)
    elif found is not None:
        current = build_threshold_fields(found.threshold)
        if verb == "create":
            check_created(context, current)
        elif changes := find_remaining_changes(context, current):
            fields = {**current, **desired_fields(changes)}
            settings = read_threshold_fields(found.threshold.name, fields)
            await update_threshold(context.session, found, settings, context.actor, context.now)
    elif verb == "update":
        raise context.fail_removed()
    elif environment is None:
        raise fail_without_environment(context)
    else:
        fields = {
            **FIELDS["threshold"],
            **desired_fields(context.action.changes),
        }
        settings = read_threshold_fields(context.action.address[-1], fields)
        target = DeployTarget(environment, context.project)
        await add_threshold(context.session, target, settings, context.actor, context.now)
    return Publications()


async def _lock_threshold(context: StepContext, environment: Environment) -> FoundThreshold | None:
    query = select(AlertThreshold).where(
        AlertThreshold.environment_id == environment.id, AlertThreshold.name == context.action.address[-1]
    )
    threshold = (await context.session.execute(query)).scalar_one_or_none()
    if threshold is None:
        return None
    found = FoundThreshold(threshold, None, environment, context.project)
    try:
        await lock_threshold(context.session, found)
    except NotFound:
        # Removed since the query.
        return None
    return found
