"""Notification rules: `/v1/notification-rules`."""

from dataclasses import replace
from typing import Annotated, Any, cast

from msgspec import UnsetType

from control_api.management.notification_rule_documents import (
    CreateRule,
    DefaultRuleDocument,
    RecipientInput,
    RuleDocument,
    RuleQuery,
    UpdateRule,
    describe_rule,
)
from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.describe import summarize_person
from control_domain.accounts.roles import Right
from control_domain.notifications import rules
from control_domain.notifications.rule_recipients import (
    check_recipients,
    explain_nobody,
    list_owners,
    load_recipients,
)
from control_domain.notifications.rules import (
    FoundRule,
    RuleSettings,
    find_rule,
    lock_rule,
    read_rule_settings,
)
from control_domain.notifications.visibility import require_right_at
from control_domain.projects.find import find_environment, find_project
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.alert_kinds import ALERT_KINDS
from pipeline_contracts.errors import (
    Conflict,
    DeployNotAllowed,
    FieldError,
    NameTaken,
    NotAllowed,
    NotFound,
    invalid_field,
    invalid_fields,
)

operations = OperationRouter("Notifications")

_List = Annotated[At[Account], at_account("notifications:read")]
_Create = Annotated[At[Account], at_account("notifications:write")]
_Read = Annotated[At[FoundRule], at(find_rule, "rule", "notifications:read", Right.READ)]
_Change = Annotated[At[FoundRule], at(find_rule, "rule", "notifications:write", Right.MANAGE)]


def _settings(document: RuleDocument) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name in UpdateRule.__struct_fields__}


async def _describe_one(at: At[Any], found: FoundRule) -> RuleDocument:
    return describe_rule(found, await load_recipients(at.session, at.account, [found.rule]))


@operations.get("/v1/notification-rules", problems=[NotFound, DeployNotAllowed])
async def list_notification_rules(
    at: _List, params: Annotated[RuleQuery, query(RuleQuery)]
) -> PageOf[RuleDocument]:
    """List notification rules.

    The rules of the whole account and of all projects in which you have a role, the newest first. Where there is no
    rule, the default rule applies.
    """
    pages = read_pages(at, params, "notification rules")
    project = None
    if params.project is not None:
        project = await find_project(at.session, at.caller, params.project, Right.READ)
    found, has_more = await rules.list_rules(at.session, at.caller, project, pages.page)
    recipients = await load_recipients(at.session, at.account, [each.rule for each in found])
    return pages.answer(
        [describe_rule(each, recipients) for each in found], found[-1].rule.id if has_more else None
    )


@operations.get("/v1/default-notification-rule")
async def read_default_notification_rule(at: _List) -> DefaultRuleDocument:
    """Read the default notification rule.

    It sends the kinds that are on by default to the owners by e-mail. It applies to the platform and to each project
    until the whole account, or that project, has a rule.
    """
    owners = await list_owners(at.session, at.account)
    kinds = ALERT_KINDS.values()
    sends_email = "email" not in at.request.app.state.unavailable_channels
    return {
        "applies": not await rules.has_account_rule(at.session, at.account),
        "kinds": [kind.name for kind in kinds if kind.default == "on"],
        "production_kinds": [kind.name for kind in kinds if kind.default == "production"],
        "recipients": [{"channel": None, "person": summarize_person(owner)} for owner in owners],
        "sends_email": sends_email,
        "nobody": explain_nobody(owners, sends_email=sends_email),
    }


@operations.post(
    "/v1/notification-rules",
    status=201,
    problems=[NameTaken, Conflict, NotFound, NotAllowed, DeployNotAllowed],
)
async def create_notification_rule(
    at: _Create, body: Annotated[CreateRule, json_body(CreateRule)]
) -> RuleDocument:
    """Create a notification rule.

    Maintainers of a project can create rules of the project; owners and admins also rules of the whole account. The
    default rule then no longer applies to that project, or to the whole account. An account has up to 200 rules.
    """
    project = None
    if body.project is None:
        await require_right_at(at.session, at.caller, None, Right.MANAGE)
    else:
        project = await find_project(at.session, at.caller, body.project, Right.MANAGE)
    environment = await _find_environment(at, project, body.environment)
    settings = RuleSettings(
        name=body.name,
        environment=environment,
        kinds=body.kinds,
        min_severity=body.min_severity,
        recipients=await _check_recipients(at, project, body.recipients),
        reminders=body.reminders,
        enabled=body.enabled,
    )
    found = await rules.add_rule(at.session, at.account, project, settings, at.actor, at.now)
    return await _describe_one(at, found)


@operations.get("/v1/notification-rules/{rule}", etag=_settings, problems=[NotAllowed])
async def read_notification_rule(at: _Read) -> RuleDocument:
    """Read a notification rule.

    Everybody in the account may read rules of the whole account.
    """
    return await _describe_one(at, at.found)


@operations.patch("/v1/notification-rules/{rule}", etag=_settings, problems=[NameTaken, NotAllowed])
async def update_notification_rule(
    at: _Change, body: Annotated[UpdateRule, json_body(UpdateRule)]
) -> RuleDocument:
    """Change a notification rule.

    Recipients still get updates of incidents that the rule has sent before, until these end. Only owners and admins
    can change rules of the whole account.
    """
    found = await lock_rule(at.session, at.found)
    at.check_if_match(_settings(await _describe_one(at, found)))
    present = read_rule_settings(found)
    environment = present.environment
    if not isinstance(body.environment, UnsetType):
        environment = await _find_environment(at, found.project, body.environment)
    recipients = present.recipients
    if body.recipients is not None:
        recipients = await _check_recipients(at, found.project, body.recipients)
    settings = replace(
        present,
        name=present.name if body.name is None else body.name,
        environment=environment,
        kinds=present.kinds if isinstance(body.kinds, UnsetType) else body.kinds,
        min_severity=body.min_severity or present.min_severity,
        recipients=recipients,
        reminders=present.reminders if body.reminders is None else body.reminders,
        enabled=present.enabled if body.enabled is None else body.enabled,
    )
    return await _describe_one(at, await rules.update_rule(at.session, found, settings, at.actor, at.now))


@operations.delete("/v1/notification-rules/{rule}", checks_if_match=True, problems=[NotAllowed])
async def delete_notification_rule(at: _Change) -> RuleDocument:
    """Remove a notification rule.

    Recipients still get updates of incidents that the rule has sent, until these end. Where no rule is left, the
    default rule applies again.
    """
    found = await lock_rule(at.session, at.found)
    document = await _describe_one(at, found)
    at.check_if_match(_settings(document))
    await rules.delete_rule(at.session, found, at.actor, at.now)
    return document


async def _find_environment(
    at: At[Any], project: Project | None, number_or_id: str | None
) -> Environment | None:
    """Return the environment. Raises `InvalidInput` unless it belongs to the project."""
    if number_or_id is None:
        return None
    if project is None:
        raise invalid_field("environment", "is allowed only together with its project")
    try:
        found = await find_environment(at.session, at.caller, number_or_id, Right.READ)
    except (NotFound, DeployNotAllowed):
        found = None
    if found is None or found.project.id != project.id:
        raise invalid_field("environment", "is not an environment of the project")
    return found.environment


async def _check_recipients(at: At[Any], project: Project | None, given: list[RecipientInput]) -> list[str]:
    errors = [
        FieldError(f"recipients[{position}]", "must have either `channel` or `person`")
        for position, each in enumerate(given)
        if (each.channel is None) == (each.person is None)
    ]
    if errors:
        raise invalid_fields(errors)
    named = [
        ("channel", str(each.channel)) if each.channel is not None else ("person", str(each.person))
        for each in given
    ]
    return await check_recipients(at.session, at.account, project, cast(Any, named))
