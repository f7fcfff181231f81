"""Decides by the rules of an account who is notified of an incident. Does no I/O."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pipeline_contracts.alert_kinds import ALERT_KINDS, SEVERITIES, Severity

RecipientType = Literal["channel", "person"]


class Recipient(NamedTuple):
    """A channel, or a person who is notified by e-mail. `number`: the number of the database row."""

    type: RecipientType
    number: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in the form that is needed for matching. A condition that is None matches everything."""

    project_id: int | None
    environment_id: int | None
    kinds: Collection[str] | None
    """The kinds and families that the rule sends. None: the kinds that are on by default."""
    min_severity: Severity
    recipients: Sequence[Recipient]
    reminders: bool
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class AccountRules:
    """The notification rules of one account."""

    rules: Sequence[Rule]
    default: Rule | None = None
    """The rule that applies if no rule covers the project. None if the installation sends no e-mail."""


def default_rule(owners: Sequence[int]) -> Rule:
    """Return the rule for projects that no rule covers: the owners get the kinds that are on by default by e-mail."""
    return Rule(None, None, None, "info", [Recipient("person", owner) for owner in owners], True)


@dataclass(frozen=True, slots=True)
class Routed:
    """The properties of an incident that rules compare."""

    project_id: int | None
    environment_id: int | None
    environment_type: str | None
    """The type of the environment: `production`, `staging`, …; None for the platform itself."""
    kind: str
    severity: Severity


def route(routed: Routed, account: AccountRules) -> Mapping[Recipient, bool]:
    """Return the recipients of all matching rules. The value is True for a recipient who gets reminders.

    The default rule applies unless a rule covers the project or the whole account. For this, a rule that is turned off
    counts. A rule whose recipients were all removed does not count, because nobody would be notified.
    """
    recipients: dict[Recipient, bool] = {}
    rules = [rule for rule in account.rules if rule.recipients or not rule.enabled]
    if account.default is not None and not any(
        rule.project_id in (None, routed.project_id) for rule in rules
    ):
        rules.append(account.default)
    for rule in rules:
        if rule.enabled and _matches(rule, routed):
            for recipient in rule.recipients:
                recipients[recipient] = recipients.get(recipient, False) or rule.reminders
    return recipients


def _matches(rule: Rule, routed: Routed) -> bool:
    if rule.project_id is not None and rule.project_id != routed.project_id:
        return False
    if rule.environment_id is not None and rule.environment_id != routed.environment_id:
        return False
    if SEVERITIES.index(routed.severity) < SEVERITIES.index(rule.min_severity):
        return False
    kind = ALERT_KINDS[routed.kind]
    if rule.kinds is not None:
        return kind.name in rule.kinds or kind.family in rule.kinds
    return kind.default == "on" or (kind.default == "production" and routed.environment_type == "production")
