"""What a configuration document changes in a project: a pure function of both."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from control_domain.configurations.addresses import (
    PROJECT,
    Address,
    Kind,
    find_kind,
    split_member,
    write_address,
)
from control_domain.configurations.documents.document import ConfigurationDocument, Wanted
from control_domain.configurations.state import Present, ProjectState
from control_domain.configurations.values import ALWAYS_THERE, FIELDS, MASK, NEEDED, Keep, Secret, Value
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.projects.operations import POSITIONS

Verb = Literal["create", "update", "delete"]
VERBS: tuple[Verb, ...] = ("create", "update", "delete")
# Of a digest, what people are shown: enough to tell two values apart, far too little to find one.
_SHOWN_DIGEST = 8


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one field. `is_masked`: neither value is shown."""

    field: str
    before: Value
    after: Value
    is_masked: bool = False

    def to_json(self) -> dict[str, Any]:
        """As people and programs see it. Of a variable, whose values are masked, the keyed digests tell whether it is
        the same one as elsewhere in the project."""
        told: dict[str, Any] = {"field": self.field}
        if not self.is_masked:
            return {**told, "from": self.before, "to": self.after}
        told |= {"from": _mask(self.before), "to": _mask(self.after), "sensitive": True}
        for name, value in (("from_digest", self.before), ("to_digest", self.after)):
            if isinstance(value, Secret):
                told[name] = value.digest[:_SHOWN_DIGEST]
        return told


def _mask(value: Value) -> str | None:
    return None if value is None else MASK


@dataclass(frozen=True, slots=True)
class Action:
    """One resource made, changed or removed: carried out as a whole or not at all."""

    verb: Verb
    address: Address
    changes: Sequence[Change]

    @property
    def kind(self) -> Kind:
        """What kind of resource it is about."""
        kind = find_kind(self.address)
        assert kind is not None
        return kind

    def to_json(self) -> dict[str, Any]:
        """Without secrets."""
        return {
            "action": self.verb,
            "resource": write_address(self.address),
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in the order in which they are carried out. `unmanaged`: what there is of which the document says
    nothing; it stays. `awaiting_approval`: environments whose variables wait for a second person."""

    fingerprint: str
    actions: Sequence[Action]
    unmanaged: Sequence[str]
    awaiting_approval: Sequence[Address] = ()

    def to_json(self) -> dict[str, Any]:
        """As the public API has it; the same plan gives the same bytes, and no secret is in them."""
        return {
            "fingerprint": self.fingerprint,
            "summary": {verb: sum(action.verb == verb for action in self.actions) for verb in VERBS},
            "actions": [action.to_json() for action in self.actions],
            "unmanaged": list(self.unmanaged),
            "awaiting_approval": [f"{write_address(one)}.variables" for one in self.awaiting_approval],
        }


def make_plan(document: ConfigurationDocument, state: ProjectState) -> Plan:
    """The plan by which the project becomes what the document says.

    What is made and changed comes first, the project before its environments and those in the order in which they are
    promoted to, each before what it holds; then what is deleted, the other way round. Raises `DocumentFault` for what
    this project cannot have.
    """
    faults = [*find_project_faults(document, state)]
    if faults:
        raise DocumentFault(faults)
    gone = _Gone(document.deleted)
    named = frozenset(wanted.address for wanted in document.resources)
    made = [
        *(_bring_about(wanted, state.resources.get(wanted.address), gone) for wanted in document.resources),
        *(
            _clear_members(present, gone)
            for present in state.resources.values()
            if present.address not in named
        ),
    ]
    deleted = [
        _delete(present) for present in state.resources.values() if present.address in document.deleted
    ]
    rank = _Ranks(document, state).rank
    return Plan(
        state.fingerprint(),
        [
            *sorted(
                (action for action in made if action is not None), key=lambda action: rank(action.address)
            ),
            *sorted(
                (action for action in deleted if not gone.has_with_parent(action.address)),
                key=lambda action: rank(action.address),
                reverse=True,
            ),
        ],
        [
            *_find_unmanaged(
                document, sorted(state.resources.values(), key=lambda one: rank(one.address)), gone
            )
        ],
        sorted(state.awaiting_approval),
    )


class _Gone:
    """What the document wants gone."""

    def __init__(self, deleted: Iterable[Address]) -> None:
        self._deleted = frozenset(deleted)
        self._members: defaultdict[Address, set[str]] = defaultdict(set)
        for address in self._deleted:
            member = split_member(address)
            if member is not None:
                self._members[member[0]].add(member[1])

    def has(self, address: Address) -> bool:
        """Whether the resource goes, by itself or with what it is of."""
        return address in self._deleted or self.has_with_parent(address)

    def has_with_parent(self, address: Address) -> bool:
        """Whether it goes with what it is of."""
        return any(address[:length] in self._deleted for length in range(1, len(address)))

    def has_member(self, address: Address, field: str) -> bool:
        """Whether a resource's variable or goal goes."""
        return field in self._members.get(address, ())

    @property
    def with_members(self) -> Iterable[Address]:
        """The resources of which variables or goals go."""
        return self._members

    def members_of(self, address: Address) -> Iterable[str]:
        """The variables or goals of the resource that go."""
        return sorted(self._members.get(address, ()))


def find_project_faults(
    document: ConfigurationDocument, state: ProjectState, known: Sequence[Fault] = ()
) -> Iterable[Fault]:
    """What this project cannot have of the document. `known`: the document's own faults; a resource that has an unknown
    key is not said to miss anything, because that key may be a misspelled one."""
    for wanted in document.resources:
        told = write_address(wanted.address)
        kind = _kind(wanted.address)
        is_misread = any(_hides_fields(fault.path, told, kind) for fault in known)
        if kind == "environment" and wanted.address[1] in state.previews:
            yield Fault(told, wanted.line, "is the slug of a preview: give the environment another one")
        present = state.resources.get(wanted.address)
        if present is None and not is_misread:
            for group in NEEDED[kind]:
                # There without a value: what gives it is at fault, a missing binding for example.
                if not any(name in wanted.fields for name in group):
                    missing = " or ".join(group)
                    yield Fault(told, wanted.line, f"needs {missing}, because there is no such {kind} yet")
        for field, value in wanted.fields.items():
            if value is Keep.KEEP and (present is None or field not in present.fields):
                yield Fault(
                    f"{told}.{field}", wanted.line, "has no value yet that could be kept: give it one"
                )
    for address, line in document.deleted.items():
        if address[0] == "environments" and address[1] in state.previews:
            told = write_address(address)
            yield Fault(told, line, "is a preview, which goes with its branch: take it out")


def _hides_fields(fault: str, resource: str, kind: Kind) -> bool:
    """Whether a fault at this path is of the resource as a whole, or of a key that it does not know."""
    key = fault.removeprefix(f"{resource}.")
    return fault == resource or (key != fault and key not in FIELDS[kind] and not {".", "["} & {*key})


def _kind(address: Address) -> Kind:
    kind = find_kind(address)
    assert kind is not None
    return kind


def _bring_about(wanted: Wanted, present: Present | None, gone: _Gone) -> Action | None:
    before: Mapping[str, Value] = {} if present is None else present.fields
    cleared = [] if present is None else gone.members_of(wanted.address)
    after = {**dict.fromkeys(cleared), **wanted.fields}
    changes = [
        Change(field, before.get(field), after[field], _is_masked(field, before, after, wanted))
        for field in _in_order(_kind(wanted.address), after)
        if after[field] is not Keep.KEEP and before.get(field) != after[field]
    ]
    if present is None:
        return Action("create", wanted.address, changes)
    return Action("update", wanted.address, changes) if changes else None


def _is_masked(
    field: str, before: Mapping[str, Value], after: Mapping[str, Value], wanted: Wanted | None
) -> bool:
    is_secret = isinstance(before.get(field), Secret) or isinstance(after.get(field), Secret)
    return is_secret or (wanted is not None and field in wanted.bound)


def _in_order(kind: Kind, fields: Iterable[str]) -> Sequence[str]:
    """Those of the kind first, then its members by name."""
    given = set(fields)
    known = [field for field in FIELDS[kind] if field in given]
    return [*known, *sorted(given.difference(known))]


def _clear_members(present: Present, gone: _Gone) -> Action | None:
    """The change of a resource of which the document says no more than that members of it go."""
    if gone.has(present.address):
        return None
    return _bring_about(Wanted(present.address, {}, 0), present, gone)


def _delete(present: Present) -> Action:
    changes = [
        Change(field, present.fields[field], None, isinstance(present.fields[field], Secret))
        for field in _in_order(_kind(present.address), present.fields)
        if present.fields[field] is not None
    ]
    return Action("delete", present.address, changes)


class _Ranks:
    """The order of resources."""

    def __init__(self, document: ConfigurationDocument, state: ProjectState) -> None:
        self._orders: dict[str, int] = {}
        fields: dict[Address, Mapping[str, Value]] = {
            address: present.fields for address, present in state.resources.items()
        }
        for wanted in document.resources:
            fields[wanted.address] = {**fields.get(wanted.address, {}), **wanted.fields}
        for address, said in fields.items():
            if _kind(address) == "environment":
                order = said.get("order")
                self._orders[address[1]] = order if isinstance(order, int) else POSITIONS[str(said["type"])]

    def rank(self, address: Address) -> tuple[Any, ...]:
        """What to sort by."""
        if address == PROJECT:
            return (0,)
        if address[0] == "sites":
            return (2, address)
        return (1, self._orders[address[1]], address[1], address[2:])


def _find_unmanaged(
    document: ConfigurationDocument, resources: Iterable[Present], gone: _Gone
) -> Iterable[str]:
    """Of what the document does not name, only the outermost: an environment, and not its heartbeats besides."""
    said: dict[Address, Mapping[str, Value]] = {address: {} for address in gone.with_members}
    said |= {one.address: one.fields for one in document.resources}
    for present in resources:
        address = present.address
        if gone.has(address):
            continue
        if address in said:
            yield from _unmanaged_fields(present, said[address], gone)
        elif address != PROJECT and (len(address) == 2 or address[:2] in said):
            yield write_address(address)


def _unmanaged_fields(present: Present, said: Mapping[str, Value], gone: _Gone) -> Iterable[str]:
    kind = _kind(present.address)
    for field in _in_order(kind, present.fields):
        is_default = field in ALWAYS_THERE[kind] or present.fields[field] == FIELDS[kind].get(field)
        if field not in said and not is_default and not gone.has_member(present.address, field):
            yield f"{write_address(present.address)}.{field}"
