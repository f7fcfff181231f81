"""Create, change and remove notification rules."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from control_domain.configurations.notification_state import Recipients, build_rule_fields, read_recipients
from control_domain.configurations.plan import desired_fields
from control_domain.configurations.resources import FIELDS
from control_domain.configurations.steps.step_context import (
    Publications,
    StepContext,
    StepFailed,
    check_created,
    check_removable,
    find_remaining_changes,
)
from control_domain.notifications.rules import (
    FoundRule,
    RuleSettings,
    add_rule,
    delete_rule,
    lock_rule,
    update_rule,
)
from control_domain.previews.operations import PREVIEW
from control_domain.projects.operations import lock_project_row
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import NotificationRule
from control_domain.tables.projects import Environment
from pipeline_contracts.errors import NotFound


async def apply_rule_step(context: StepContext) -> Publications:
    """Create, change or remove the rule."""
    verb = context.action.verb
    if verb == "create":
        await lock_project_row(context.session, context.project)
    found = await _lock_rule(context)
    if found is None:
        if verb == "update":
            raise context.fail_removed()
        if verb == "create":
            await _create(context)
        return Publications()
    recipients = await read_recipients(context.session, context.project)
    slug = None if found.environment is None else found.environment.slug
    current = build_rule_fields(found.rule, slug, recipients)
    if verb == "delete":
        check_removable(context, current)
        await delete_rule(context.session, found, context.actor, context.now)
    elif verb == "create":
        check_created(context, current)
    elif changes := find_remaining_changes(context, current):
        changed = {change.field for change in changes}
        fields = {**current, **desired_fields(changes)}
        stored = json.loads(found.rule.recipients)
        settings = await _read_settings(
            context,
            fields,
            _find_recipients(context, recipients, fields) if changed & {"channels", "people"} else stored,
        )
        await update_rule(context.session, found, settings, context.actor, context.now)
    return Publications()


async def _lock_rule(context: StepContext) -> FoundRule | None:
    """Return the project's rule of this name, locked; None if it was removed."""
    query = (
        select(NotificationRule, Environment)
        .outerjoin(Environment, Environment.id == NotificationRule.environment_id)
        .where(
            NotificationRule.account_id == context.project.account_id,
            NotificationRule.project_id == context.project.id,
            NotificationRule.name == context.action.address[-1],
        )
    )
    row = (await context.session.execute(query)).one_or_none()
    if row is None:
        return None
    try:
        return await lock_rule(context.session, FoundRule(row[0], context.project, row[1]))
    except NotFound:
        return None


async def _create(context: StepContext) -> None:
    fields = {**FIELDS["rule"], **desired_fields(context.action.changes)}
    recipients = await read_recipients(context.session, context.project)
    settings = await _read_settings(context, fields, _find_recipients(context, recipients, fields))
    account = await context.session.get_one(Account, context.project.account_id)
    await add_rule(context.session, account, context.project, settings, context.actor, context.now)


async def _read_settings(
    context: StepContext, fields: Mapping[str, Any], recipients: Sequence[str]
) -> RuleSettings:
    slug = fields["environment"]
    return RuleSettings(
        name=context.action.address[-1],
        environment=None if slug is None else await _find_environment(context, slug),
        kinds=fields["kinds"],
        min_severity=fields["min_severity"],
        recipients=recipients,
        reminders=fields["reminders"],
        enabled=fields["enabled"],
    )


async def _find_environment(context: StepContext, slug: str) -> Environment:
    query = select(Environment).where(
        Environment.project_id == context.project.id, Environment.slug == slug, Environment.type != PREVIEW
    )
    environment = (await context.session.execute(query)).scalar_one_or_none()
    if environment is None:
        raise _fail(context, f"there is no environment {slug} any more")
    return environment


def _find_recipients(
    context: StepContext, recipients: Recipients, fields: Mapping[str, Any]
) -> Sequence[str]:
    """Return the recipients as rules store them."""

    def find(kind: str, noun: str, known: Mapping[int, str], names: Sequence[str]) -> Iterator[str]:
        numbers = {name: number for number, name in known.items()}
        for name in names:
            if name not in numbers:
                raise _fail(context, f"there is no {noun} {name} any more")
            yield f"{kind} {numbers[name]}"

    return [
        *find("channel", "channel", recipients.channels, fields["channels"]),
        *find("person", "reader of the project", recipients.people, fields["people"]),
    ]


def _fail(context: StepContext, why: str) -> StepFailed:
    verb = "created" if context.action.verb == "create" else "changed"
    return StepFailed(f"{context.resource_name} cannot be {verb}: {why}; make a new review.")
