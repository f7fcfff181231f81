"""Lists, creates, changes and removes notification rules for people, with audit entries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.database.public_ids import parse_number
from control_domain.database.statements import lock_row
from control_domain.notifications.kinds import check_kinds, read_kinds, write_kinds
from control_domain.notifications.limits import MAX_RULES, check_number
from control_domain.notifications.visibility import in_projects_of, require_right_at
from control_domain.paging import Page
from control_domain.slugs import check_name
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import NotificationRule
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.alert_kinds import Severity
from pipeline_contracts.errors import NameTaken, NotFound


class FoundRule(NamedTuple):
    """A rule with its project and environment; None stands for all."""

    rule: NotificationRule
    project: Project | None
    environment: Environment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """The settings of a rule. Recipients are texts like `channel 3` and `person 7`, with checked numbers of rows."""

    name: str
    environment: Environment | None = None
    kinds: Sequence[str] | None = None
    min_severity: Severity = "info"
    recipients: Sequence[str] = ()
    reminders: bool = True
    enabled: bool = True

    def columns(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "environment_id": None if self.environment is None else self.environment.id,
            "kinds": write_kinds(self.kinds),
            "min_severity": self.min_severity,
            "recipients": json.dumps(list(self.recipients)),
            "reminders": self.reminders,
            "enabled": self.enabled,
        }


def read_rule_settings(found: FoundRule) -> RuleSettings:
    """Return the settings as they are stored."""
    rule = found.rule
    return RuleSettings(
        name=rule.name,
        environment=found.environment,
        kinds=read_kinds(rule.kinds),
        min_severity=rule.min_severity,  # type: ignore[arg-type]
        recipients=json.loads(rule.recipients),
        reminders=rule.reminders,
        enabled=rule.enabled,
    )


def _select_rules(account_id: int) -> Any:
    return (
        select(NotificationRule, Project, Environment)
        .outerjoin(Project, Project.id == NotificationRule.project_id)
        .outerjoin(Environment, Environment.id == NotificationRule.environment_id)
        .where(NotificationRule.account_id == account_id)
    )


async def find_rule(session: AsyncSession, caller: Caller, number: str, right: Right) -> FoundRule:
    """Return the rule with this number. Every member may read rules of the whole account.

    Raises `NotFound`, also for a rule of another account, `DeployNotAllowed` and `NotAllowed`.
    """
    query = _select_rules(caller.account.id).where(NotificationRule.id == (parse_number(number) or 0))
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such rule.")
    found = FoundRule(*row)
    if found.project is not None or right > Right.READ:
        await require_right_at(session, caller, found.rule.project_id, right)
    return found


async def list_rules(
    session: AsyncSession, caller: Caller, project: Project | None, page: Page
) -> tuple[Sequence[FoundRule], bool]:
    """Return a page of the rules of the whole account and of the projects that the caller may read, the newest first,
    and whether more follow. With `project`, only the rules of this project."""
    query = _select_rules(caller.account.id)
    for condition in in_projects_of(caller, NotificationRule.project_id):
        query = query.where(or_(NotificationRule.project_id.is_(None), condition))
    if project is not None:
        query = query.where(NotificationRule.project_id == project.id)
    if page.before is not None:
        query = query.where(NotificationRule.id < page.before)
    rows = (await session.execute(query.order_by(NotificationRule.id.desc()).limit(page.limit + 1))).all()
    return [FoundRule(*row) for row in rows[: page.limit]], len(rows) > page.limit


async def has_account_rule(session: AsyncSession, account: Account) -> bool:
    """Return False if the default rule applies: to the platform, and to each project without a rule of its own."""
    query = select(NotificationRule.id).where(
        NotificationRule.account_id == account.id,
        NotificationRule.project_id.is_(None),
        # A rule without recipients does not count (`notifications.incidents.routing.route`).
        or_(NotificationRule.recipients != "[]", NotificationRule.enabled.is_(False)),
    )
    return (await session.execute(query.limit(1))).first() is not None


async def add_rule(
    session: AsyncSession,
    account: Account,
    project: Project | None,
    settings: RuleSettings,
    actor: Actor,
    now: datetime,
) -> FoundRule:
    """Create a rule; the environment is of the project. It does not send incidents that are open already.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the account has too many rules.
    """
    columns = {
        **settings.columns(),
        "name": check_name(settings.name),
        "kinds": write_kinds(check_kinds(settings.kinds)),
    }
    of_account = select(NotificationRule).where(NotificationRule.account_id == account.id)
    await check_number(session, of_account, MAX_RULES, "rules")
    rule = NotificationRule(
        account_id=account.id, project_id=None if project is None else project.id, created_at=now, **columns
    )
    try:
        async with session.begin_nested():
            session.add(rule)
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(columns["name"]) from None
    found = FoundRule(rule, project, settings.environment)
    _record(session, found, "create", _describe(settings), actor, now)
    return found


async def lock_rule(session: AsyncSession, found: FoundRule) -> FoundRule:
    """Lock the rule and return it freshly read. Raises `NotFound` if it was removed meanwhile."""
    account_id, number = found.rule.account_id, found.rule.id
    is_rule = (NotificationRule.id == number, NotificationRule.account_id == account_id)
    if not await lock_row(session, NotificationRule.created_at, *is_rule):
        raise NotFound("The account has no such rule.")
    query = _select_rules(account_id).where(NotificationRule.id == number)
    return FoundRule(*(await session.execute(query.execution_options(populate_existing=True))).one())


async def update_rule(
    session: AsyncSession, found: FoundRule, settings: RuleSettings, actor: Actor, now: datetime
) -> FoundRule:
    """Replace the settings of the rule, which is locked. Raises `InvalidInput` and `NameTaken`."""
    before = _describe(read_rule_settings(found))
    columns = {
        **settings.columns(),
        "name": check_name(settings.name),
        "kinds": write_kinds(check_kinds(settings.kinds)),
    }
    try:
        async with session.begin_nested():
            for name, value in columns.items():
                setattr(found.rule, name, value)
            await session.flush()
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(columns["name"]) from None
    changed = found._replace(environment=settings.environment)
    after = _describe(read_rule_settings(changed))
    details = {
        name: {"from": before[name], "to": value} for name, value in after.items() if value != before[name]
    }
    if details:
        _record(session, changed, "set", details, actor, now)
    return changed


async def delete_rule(session: AsyncSession, found: FoundRule, actor: Actor, now: datetime) -> None:
    """Remove the locked rule. Recipients still get the updates of incidents that it has already sent to them."""
    rule = found.rule
    await session.execute(
        delete(NotificationRule).where(
            NotificationRule.id == rule.id, NotificationRule.account_id == rule.account_id
        )
    )
    _record(session, found, "remove", {"name": rule.name}, actor, now)


def _describe(settings: RuleSettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "environment": None if settings.environment is None else settings.environment.slug,
        "kinds": settings.kinds,
        "min_severity": settings.min_severity,
        "recipients": list(settings.recipients),
        "reminders": settings.reminders,
        "enabled": settings.enabled,
    }


def _record(
    session: AsyncSession,
    found: FoundRule,
    verb: str,
    details: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> None:
    where = {} if found.project is None else {"project": found.project.public_id}
    record_audit_entry(
        session,
        actor,
        found.rule.account_id,
        f"notification-rule.{verb}",
        f"notification-rule {found.rule.id}",
        now,
        {**where, **details},
    )


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The account has a rule with the name {name!r} already.")
