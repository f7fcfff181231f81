"""Read the notification rules and thresholds of a project, and whom rules may notify."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right, is_allowed
from control_domain.configurations.addresses import RULES, THRESHOLDS
from control_domain.configurations.resources import CurrentResource, Value
from control_domain.configurations.threshold_fields import build_threshold_fields
from control_domain.previews.operations import PREVIEW
from control_domain.tables.accounts import Membership, Person
from control_domain.tables.notifications import AlertThreshold, NotificationChannel, NotificationRule
from control_domain.tables.projects import Environment, Project, ProjectRole

# Refresh rows that the session has read before.
_FRESH = {"populate_existing": True}


class Recipients(NamedTuple):
    """Whom rules of a project may notify: names of channels and e-mail addresses by the numbers of their rows."""

    channels: Mapping[int, str]
    people: Mapping[int, str]


def build_rule_fields(
    rule: NotificationRule, environment: str | None, recipients: Recipients
) -> dict[str, Value]:
    """Return the rule's fields, without recipients who may not read the project any more.

    `environment`: the slug of the rule's environment.
    """
    stored = [recipient.split() for recipient in json.loads(rule.recipients)]

    def name(kind: str, names: Mapping[int, str]) -> list[str]:
        return sorted(names[int(number)] for of, number in stored if of == kind and int(number) in names)

    return {
        "environment": environment,
        "kinds": None if rule.kinds is None else sorted(json.loads(rule.kinds)),
        "min_severity": rule.min_severity,
        "channels": name("channel", recipients.channels),
        "people": name("person", recipients.people),
        "reminders": rule.reminders,
        "enabled": rule.enabled,
    }


async def read_recipients(session: AsyncSession, project: Project) -> Recipients:
    """Return the channels of the account, and the people who may read the project."""
    channels = select(NotificationChannel.id, NotificationChannel.name).where(
        NotificationChannel.account_id == project.account_id
    )
    people = (
        select(Person.id, Person.email, Membership.role, ProjectRole.role)
        .join(Membership, Membership.person_id == Person.id)
        .outerjoin(ProjectRole, (ProjectRole.person_id == Person.id) & (ProjectRole.project_id == project.id))
        .where(Membership.account_id == project.account_id)
    )
    return Recipients(
        {row[0]: row[1] for row in await session.execute(channels)},
        {
            number: email
            for number, email, account_role, role in await session.execute(people)
            if is_allowed(account_role, role, Right.READ)
        },
    )


async def read_thresholds(session: AsyncSession, project: Project) -> Iterable[CurrentResource]:
    """Return the thresholds of the project's environments that are not previews."""
    query = (
        select(AlertThreshold, Environment.slug)
        .join(Environment, Environment.id == AlertThreshold.environment_id)
        .where(Environment.project_id == project.id, Environment.type != PREVIEW)
    )
    return [
        CurrentResource(("environments", slug, THRESHOLDS, threshold.name), build_threshold_fields(threshold))
        for threshold, slug in await session.execute(query, execution_options=_FRESH)
    ]


async def read_rules(
    session: AsyncSession, project: Project, recipients: Recipients
) -> tuple[Sequence[CurrentResource], frozenset[str]]:
    """Return the rules of the project, and the names of the account's other rules.

    Rules of previews are among the others: documents contain no previews.
    """
    query = (
        select(NotificationRule, Environment.slug, Environment.type)
        .outerjoin(Environment, Environment.id == NotificationRule.environment_id)
        .where(NotificationRule.account_id == project.account_id)
    )
    rules: list[CurrentResource] = []
    others: set[str] = set()
    for rule, slug, environment_type in await session.execute(query, execution_options=_FRESH):
        if rule.project_id == project.id and environment_type != PREVIEW:
            rules.append(CurrentResource((*RULES, rule.name), build_rule_fields(rule, slug, recipients)))
        else:
            others.add(rule.name)
    return rules, frozenset(others)
