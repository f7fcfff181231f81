"""Read a notification rule of a configuration document."""

import difflib
from collections.abc import Callable, Mapping

from control_domain.accounts.email_addresses import MAX_LENGTH
from control_domain.configurations.addresses import RULES
from control_domain.configurations.documents.read_settings import (
    BAD_NAME,
    Read,
    apply_rule,
    is_trimmed_name,
    read_name,
    read_settings,
    without_bindings,
)
from control_domain.configurations.resources import DesiredResource
from control_domain.documents.field import Field
from control_domain.notifications.kinds import FAMILIES, KINDS
from control_domain.notifications.rule_recipients import MAX_RECIPIENTS
from pipeline_contracts.alert_kinds import SEVERITIES

_KINDS = (*FAMILIES, *KINDS)
_LONGEST_KIND = 40
_NO_KIND = "is neither a kind of event, such as deployment.failed, nor a family of kinds, such as heartbeat"


def read_rule(name: str, field: Field) -> DesiredResource:
    """Read the rule. Its lists are sorted: their order has no meaning."""
    if not is_trimmed_name(name):
        field.refuse(BAD_NAME)
    members = without_bindings(field.known_members(tuple(_RULE), allow_null=True) or {})
    return DesiredResource((*RULES, name), read_settings(members, _RULE), field.node.line)


def _read_environment(field: Field) -> str | None:
    return None if field.is_null else field.slug()


def _read_kinds(field: Field) -> list[str] | None:
    return None if field.is_null else _read_list(field, len(_KINDS), _read_kind, least=1)


def _read_kind(field: Field) -> str | None:
    text = field.text(_LONGEST_KIND)
    return None if text is None else apply_rule(field, _check_kind, text, _NO_KIND)


def _check_kind(kind: str) -> str:
    if kind not in _KINDS:
        nearest = difflib.get_close_matches(kind, _KINDS, n=1)
        raise ValueError(f"{_NO_KIND}{f'; do you mean {nearest[0]}?' if nearest else ''}")
    return kind


def _read_email(field: Field) -> str | None:
    """Return the address in lower case, as it is stored."""
    email = field.text(MAX_LENGTH)
    return email and email.strip().lower()


def _read_list(field: Field, most: int, read: Callable[[Field], str | None], *, least: int = 0) -> list[str]:
    found: set[str] = set()
    for item in field.items(most, least=least, allow_null=least == 0) or ():
        text = read(item)
        if text in found:
            item.refuse("is in the list already")
        elif text is not None:
            found.add(text)
    return sorted(found)


_RULE: Mapping[str, Read] = {
    "environment": _read_environment,
    "kinds": _read_kinds,
    "min_severity": lambda field: field.choice(SEVERITIES),
    "channels": lambda field: _read_list(field, MAX_RECIPIENTS, read_name),
    "people": lambda field: _read_list(field, MAX_RECIPIENTS, _read_email),
    "reminders": Field.boolean,
    "enabled": Field.boolean,
}
