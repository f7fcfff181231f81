"""Which recipients hear of an incident: the rules of an account. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pipeline_contracts.alert_kinds import ALERT_KINDS, SEVERITIES, Severity

RecipientType = Literal["channel", "person"]


class Recipient(NamedTuple):
    """A channel, or a person by e-mail; `number` is that of the row."""

    type: RecipientType
    number: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is matched. None means all."""

    project_id: int | None
    environment_id: int | None
    kinds: Collection[str] | None
    """Kinds and families; None: the kinds that are on by default."""
    min_severity: Severity
    recipients: Sequence[Recipient]
    reminders: bool


def default_rule(owners: Sequence[int]) -> Rule:
    """Return the rule of an account without rules: what is on by default, to its owners by e-mail."""
    return Rule(None, None, None, "info", [Recipient("person", owner) for owner in owners], True)


@dataclass(frozen=True, slots=True)
class Routed:
    """What is routed."""

    project_id: int | None
    environment_id: int | None
    environment_type: str | None
    """`production`, `staging`, …; None for the platform."""
    kind: str
    severity: Severity


def route(routed: Routed, rules: Sequence[Rule]) -> Mapping[Recipient, bool]:
    """Return the recipients of all matching rules, each with whether it is reminded."""
    recipients: dict[Recipient, bool] = {}
    for rule in rules:
        if _matches(rule, routed):
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
