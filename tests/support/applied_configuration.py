"""Applies a plan to a project in memory."""

from collections.abc import Mapping
from dataclasses import replace

from control_domain.configurations.addresses import Address, find_kind, find_parent
from control_domain.configurations.plan import Action, Plan
from control_domain.configurations.resources import FIELDS, CurrentResource, ProjectState, Value
from control_domain.projects.operations import POSITIONS
from pipeline_contracts.alert_kinds import ALERT_KINDS


def apply_in_memory(state: ProjectState, plan: Plan) -> ProjectState:
    """Return the project after the plan's actions, in their order. Raises `AssertionError` if one is not possible."""
    resources = dict(state.resources)
    for action in plan.actions:
        address = action.address
        if (parent := find_parent(address)) is not None:
            assert parent in resources, f"{address} has no parent"
        assert (address in resources) is (action.verb != "create"), f"{action.verb} {address}"
        if action.verb == "delete":
            resources = {
                other: present
                for other, present in resources.items()
                if other[: len(address)] != address and not _is_rule_of(present, address)
            }
        else:
            before = resources[address].fields if action.verb == "update" else {}
            resources[address] = CurrentResource(address, _change(action, before))
    return replace(
        state,
        serial=state.serial + 1,
        resources=resources,
        awaiting_approval=state.awaiting_approval & resources.keys(),
    )


def _is_rule_of(present: CurrentResource, address: Address) -> bool:
    """Return True if the resource is a rule for only one environment, the one at this address."""
    return find_kind(present.address) == "rule" and address == ("environments", present.fields["environment"])


def _change(action: Action, before: Mapping[str, Value]) -> dict[str, Value]:
    """Return the resource's fields after the action."""
    fields = {**(before or FIELDS[action.kind])}
    for change in action.changes:
        assert before.get(change.field) == change.before, change
        fields[change.field] = change.after
    if action.kind == "environment" and action.verb == "create":
        slug = action.address[1]
        fields["name"] = fields["name"] or slug[:1].upper() + slug[1:]
        if fields["order"] is None:
            fields["order"] = POSITIONS[str(fields["type"])]
    if action.kind == "threshold" and action.verb == "create":
        if fields["recovery"] is None:
            fields["recovery"] = fields["threshold"]
        fields["severity"] = fields["severity"] or ALERT_KINDS[str(fields["kind"])].severity
    # An optional member that was set to None is removed.
    known = FIELDS[action.kind]
    return {field: value for field, value in fields.items() if field in known or value is not None}
