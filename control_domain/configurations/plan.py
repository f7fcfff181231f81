"""Plan what a configuration document changes in a project: a pure function of both."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from control_domain.configurations.addresses import (
    NOTIFICATIONS,
    PROJECT,
    Address,
    Kind,
    find_kind,
    find_parent,
    split_member,
    write_address,
)
from control_domain.configurations.notification_faults import find_rule_faults, find_threshold_faults
from control_domain.configurations.resources import (
    FIELDS,
    MASK,
    REQUIRED,
    WITHOUT_DEFAULT,
    ConfigurationDocument,
    CurrentResource,
    DesiredResource,
    Keep,
    ProjectState,
    Secret,
    Value,
)
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.projects.operations import POSITIONS

Verb = Literal["create", "update", "delete"]
VERBS: tuple[Verb, ...] = ("create", "update", "delete")
# Enough to tell two values apart, far too short to find a value by guessing.
_SHOWN_DIGEST_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one field. `is_masked`: neither value is shown."""

    field: str
    before: Value
    after: Value
    is_masked: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON of the public API. Values of variables are masked; their shortened keyed digests
        show whether two variables of the project have the same value."""
        shown: dict[str, Any] = {"field": self.field}
        if not self.is_masked:
            return {**shown, "from": self.before, "to": self.after}
        shown |= {"from": _mask(self.before), "to": _mask(self.after), "sensitive": True}
        for name, value in (("from_digest", self.before), ("to_digest", self.after)):
            if isinstance(value, Secret):
                shown[name] = value.digest[:_SHOWN_DIGEST_LENGTH]
        return shown


def desired_fields(changes: Iterable[Change]) -> dict[str, Value]:
    """Return the values that the fields get."""
    return {change.field: change.after for change in changes}


def _mask(value: Value) -> str | None:
    return None if value is None else MASK


@dataclass(frozen=True, slots=True)
class Action:
    """Creation, change or deletion of one resource, applied as a whole or not at all."""

    verb: Verb
    address: Address
    changes: Sequence[Change]

    @property
    def kind(self) -> Kind:
        """The kind of the resource."""
        return _kind(self.address)

    def to_json(self) -> dict[str, Any]:
        """Return the action as JSON of the public API, without secrets."""
        return {
            "action": self.verb,
            "resource": write_address(self.address),
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in the order in which they are applied. `unmanaged`: resources and fields that exist and that the
    document does not mention. `awaiting_approval`: environments whose variables wait for a second person."""

    fingerprint: str
    actions: Sequence[Action]
    unmanaged: Sequence[str]
    awaiting_approval: Sequence[Address] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON of the public API, without secrets; equal plans give equal bytes."""
        return {
            "fingerprint": self.fingerprint,
            "summary": {verb: sum(action.verb == verb for action in self.actions) for verb in VERBS},
            "actions": [action.to_json() for action in self.actions],
            "unmanaged": list(self.unmanaged),
            "awaiting_approval": [
                f"{write_address(address)}.variables" for address in self.awaiting_approval
            ],
        }


def make_plan(document: ConfigurationDocument, state: ProjectState) -> Plan:
    """Plan the actions by which the project becomes what the document describes.

    Creations and changes come first: the project, its environments in the order in which releases are promoted, the
    sites, the rules; each before its members. Deletions follow in reverse order. Raises `DocumentFault` if the
    document describes something that this project cannot have.
    """
    faults = [*find_project_faults(document, state)]
    if faults:
        raise DocumentFault(faults)
    deletions = _Deletions(document.deleted)
    named = frozenset(desired.address for desired in document.resources)
    changing = [
        *(
            _plan_resource(desired, state.resources.get(desired.address), deletions)
            for desired in document.resources
        ),
        *(
            _plan_member_deletions(current, deletions)
            for current in state.resources.values()
            if current.address not in named
        ),
    ]
    deleting = [
        _plan_deletion(current)
        for current in state.resources.values()
        if current.address in document.deleted and not deletions.include_parent(current.address)
    ]
    rank = _ResourceOrder(document, state).rank
    resources = sorted(state.resources.values(), key=lambda current: rank(current.address))
    return Plan(
        state.fingerprint(),
        [
            *sorted(
                (action for action in changing if action is not None), key=lambda action: rank(action.address)
            ),
            *sorted(deleting, key=lambda action: rank(action.address), reverse=True),
        ],
        [*_find_unmanaged(document, resources, deletions)],
        sorted(state.awaiting_approval),
    )


class _Deletions:
    """The resources, variables and goals that the document deletes."""

    def __init__(self, deleted: Iterable[Address]) -> None:
        self._deleted = frozenset(deleted)
        self._members: defaultdict[Address, set[str]] = defaultdict(set)
        for address in self._deleted:
            member = split_member(address)
            if member is not None:
                self._members[member[0]].add(member[1])

    def include(self, address: Address) -> bool:
        """True if the resource is deleted by itself or together with its parent."""
        return address in self._deleted or self.include_parent(address)

    def include_parent(self, address: Address) -> bool:
        """True if the resource is deleted together with its parent."""
        return any(address[:length] in self._deleted for length in range(1, len(address)))

    def include_member(self, address: Address, field: str) -> bool:
        """True if this variable or goal of the resource is deleted."""
        return field in self._members.get(address, ())

    @property
    def parents_of_members(self) -> Iterable[Address]:
        """The resources of which variables or goals are deleted."""
        return self._members

    def members_of(self, address: Address) -> Iterable[str]:
        """The deleted variables or goals of the resource."""
        return sorted(self._members.get(address, ()))


def find_project_faults(
    document: ConfigurationDocument, state: ProjectState, known: Sequence[Fault] = ()
) -> Iterable[Fault]:
    """Find the parts of the document that this project cannot have.

    `known`: the document's own faults. A resource with an unknown key is not reported as incomplete, because that key
    may be the misspelled name of the missing one.
    """
    for desired in document.resources:
        path = write_address(desired.address)
        kind = _kind(desired.address)
        is_misread = any(_hides_fields(fault.path, path, kind) for fault in known)
        if kind == "environment" and desired.address[1] in state.previews:
            yield Fault(path, desired.line, "is the slug of a preview: give the environment another one")
        current = state.resources.get(desired.address)
        if current is None and not is_misread:
            for group in REQUIRED[kind]:
                # A field that is present without a value has a fault of its own, such as a missing binding.
                if not any(name in desired.fields for name in group):
                    missing = " or ".join(group)
                    yield Fault(path, desired.line, f"needs {missing}, because there is no such {kind} yet")
        for field, value in desired.fields.items():
            if value is Keep.KEEP and (current is None or field not in current.fields):
                yield Fault(
                    f"{path}.{field}", desired.line, "has no value yet that could be kept: give it a value"
                )
    yield from find_threshold_faults(document, state)
    yield from find_rule_faults(document, state)
    for address, line in document.deleted.items():
        if address[0] == "environments" and address[1] in state.previews:
            yield Fault(
                write_address(address),
                line,
                "is a preview, which is removed together with its branch: remove it from the document",
            )


def _hides_fields(fault: str, resource: str, kind: Kind) -> bool:
    """True if a fault at this path concerns the whole resource, or an unknown key of it."""
    key = fault.removeprefix(f"{resource}.")
    return fault == resource or (key != fault and key not in FIELDS[kind] and not {".", "["} & {*key})


def _kind(address: Address) -> Kind:
    kind = find_kind(address)
    assert kind is not None
    return kind


def _plan_resource(
    desired: DesiredResource, current: CurrentResource | None, deletions: _Deletions
) -> Action | None:
    before: Mapping[str, Value] = {} if current is None else current.fields
    cleared = [] if current is None else deletions.members_of(desired.address)
    after = {**dict.fromkeys(cleared), **desired.fields}
    changes = [
        Change(field, before.get(field), after[field], _is_masked(field, before, after, desired))
        for field in _sort_fields(_kind(desired.address), after)
        if after[field] is not Keep.KEEP and before.get(field) != after[field]
    ]
    if current is None:
        return Action("create", desired.address, changes)
    return Action("update", desired.address, changes) if changes else None


def _is_masked(
    field: str, before: Mapping[str, Value], after: Mapping[str, Value], desired: DesiredResource
) -> bool:
    is_secret = isinstance(before.get(field), Secret) or isinstance(after.get(field), Secret)
    return is_secret or field in desired.bound


def _sort_fields(kind: Kind, fields: Iterable[str]) -> Sequence[str]:
    """Return the fields of the kind first, then the members by name."""
    remaining = set(fields)
    known = [field for field in FIELDS[kind] if field in remaining]
    return [*known, *sorted(remaining.difference(known))]


def _plan_member_deletions(current: CurrentResource, deletions: _Deletions) -> Action | None:
    """Plan a resource of which the document only deletes members."""
    if deletions.include(current.address):
        return None
    return _plan_resource(DesiredResource(current.address, {}, 0), current, deletions)


def _plan_deletion(current: CurrentResource) -> Action:
    changes = [
        Change(field, current.fields[field], None, isinstance(current.fields[field], Secret))
        for field in _sort_fields(_kind(current.address), current.fields)
        if current.fields[field] is not None
    ]
    return Action("delete", current.address, changes)


class _ResourceOrder:
    """The order in which resources are listed and applied."""

    def __init__(self, document: ConfigurationDocument, state: ProjectState) -> None:
        self._environment_orders: dict[str, int] = {}
        fields_by_address: dict[Address, Mapping[str, Value]] = {
            address: current.fields for address, current in state.resources.items()
        }
        for desired in document.resources:
            merged = {**fields_by_address.get(desired.address, {}), **desired.fields}
            fields_by_address[desired.address] = merged
        for address, fields in fields_by_address.items():
            if _kind(address) == "environment":
                order = fields.get("order")
                self._environment_orders[address[1]] = (
                    order if isinstance(order, int) else POSITIONS[str(fields["type"])]
                )

    def rank(self, address: Address) -> tuple[Any, ...]:
        """Return the sort key of a resource."""
        if address == PROJECT:
            return (0,)
        if address[0] == "sites":
            return (2, address)
        if address[0] == NOTIFICATIONS:
            # Rules come after the environments that they name, and are deleted before them.
            return (3, address)
        return (1, self._environment_orders[address[1]], address[1], address[2:])


def _find_unmanaged(
    document: ConfigurationDocument, resources: Iterable[CurrentResource], deletions: _Deletions
) -> Iterable[str]:
    """Name the resources that exist and that the document does not mention; of nested ones, only the outermost.

    Resources that are removed together with an environment are left out: its members and its notification rules.
    """
    mentioned: dict[Address, Mapping[str, Value]] = {address: {} for address in deletions.parents_of_members}
    mentioned |= {desired.address: desired.fields for desired in document.resources}
    for current in resources:
        address = current.address
        if deletions.include(address):
            continue
        if address in mentioned:
            yield from _find_unmanaged_fields(current, mentioned[address], deletions)
        elif _kind(address) == "rule" and deletions.include(
            ("environments", str(current.fields["environment"]))
        ):
            continue
        elif address != PROJECT and ((parent := find_parent(address)) is None or parent in mentioned):
            yield write_address(address)


def _find_unmanaged_fields(
    current: CurrentResource, mentioned: Mapping[str, Value], deletions: _Deletions
) -> Iterable[str]:
    kind = _kind(current.address)
    for field in _sort_fields(kind, current.fields):
        is_default = field in WITHOUT_DEFAULT[kind] or current.fields[field] == FIELDS[kind].get(field)
        if field not in mentioned and not is_default and not deletions.include_member(current.address, field):
            yield f"{write_address(current.address)}.{field}"
