"""Find faults of the rules and thresholds in a document that only the project's current state reveals."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping

from control_domain.configurations.addresses import find_kind, write_address
from control_domain.configurations.resources import (
    FIELDS,
    ConfigurationDocument,
    DesiredResource,
    ProjectState,
    Value,
)
from control_domain.configurations.threshold_fields import read_threshold_fields
from control_domain.documents.faults import Fault, quote
from control_domain.notifications.threshold_settings import check_threshold
from pipeline_contracts.errors import InvalidInput


def find_rule_faults(document: ConfigurationDocument, state: ProjectState) -> Iterable[Fault]:
    """Find channels, people and environments that do not exist, names that other rules have, and rules that notify
    nobody."""
    environments = {
        address[1]
        for address in (*state.resources, *(desired.address for desired in document.resources))
        if find_kind(address) == "environment" and address not in document.deleted
    }
    for rule in document.resources:
        if find_kind(rule.address) != "rule":
            continue
        path = write_address(rule.address)
        if rule.address[-1] in state.other_rules:
            yield Fault(path, rule.line, "is the name of a rule outside of this project: choose another name")
        yield from _find_unknown(rule, "channels", state.channels, "not a channel of the account")
        yield from _find_unknown(rule, "people", state.people, "not a person who may read the project")
        current = state.resources.get(rule.address)
        fields = {**({} if current is None else current.fields), **rule.fields}
        # Check the current environment too: the document may delete it.
        yield from _find_unknown(
            rule, "environment", environments, "not an environment of the project", fields
        )
        has_list = "channels" in rule.fields or "people" in rule.fields
        if has_list and not (fields.get("channels") or fields.get("people")):
            yield Fault(
                path, rule.line, "notifies nobody: name channels or people, or disable it with enabled: false"
            )


def find_threshold_faults(document: ConfigurationDocument, state: ProjectState) -> Iterable[Fault]:
    """Find thresholds whose settings contradict each other, including the settings that the document leaves out."""
    for desired in document.resources:
        if find_kind(desired.address) != "threshold":
            continue
        current = state.resources.get(desired.address)
        fields = {**(FIELDS["threshold"] if current is None else current.fields), **desired.fields}
        if None in (fields["kind"], fields["target"], fields["threshold"]):
            # These settings are missing or invalid, which other faults report.
            continue
        try:
            check_threshold(read_threshold_fields(desired.address[-1], fields))
        except InvalidInput as error:
            errors = error.errors
        else:
            continue
        for each in errors:
            name = each.field.removesuffix("_seconds")
            yield Fault(f"{write_address(desired.address)}.{name}", desired.line, each.message)


def _find_unknown(
    rule: DesiredResource,
    field: str,
    known: Collection[str],
    description: str,
    fields: Mapping[str, Value] | None = None,
) -> Iterator[Fault]:
    for name in _list_names((fields or rule.fields).get(field)):
        if name not in known:
            nearest = difflib.get_close_matches(name, sorted(known), n=1)
            advice = f"; do you mean {nearest[0]}?" if nearest else ""
            path = f"{write_address(rule.address)}.{field}"
            yield Fault(path, rule.line, f"has {quote(name)}, which is {description}{advice}")


def _list_names(value: Value) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
