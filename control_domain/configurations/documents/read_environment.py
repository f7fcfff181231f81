"""Read an environment of a configuration document: settings, deploy window, variables, monitors and
thresholds."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from control_domain.configurations.addresses import THRESHOLDS, VARIABLES, write_address
from control_domain.configurations.documents.read_monitors import read_heartbeat, read_queue
from control_domain.configurations.documents.read_settings import (
    Read,
    apply_rule,
    find_bound_fields,
    read_name,
    read_settings,
    read_timezone,
)
from control_domain.configurations.documents.read_threshold import read_threshold
from control_domain.configurations.resources import DesiredResource, Keep, Secret, Value
from control_domain.documents.field import Field
from control_domain.environments import windows
from control_domain.environments.change import MAX_ORDER
from control_domain.environments.operations import MAX_REPLICAS
from control_domain.environments.windows import DAYS
from control_domain.slugs import is_slug
from control_domain.variables.dotenv import (
    BAD_NAME,
    MAX_VARIABLE_BYTES,
    MAX_VARIABLES,
    NAME,
    find_value_fault,
)
from pipeline_contracts.git_refs import LONGEST_REF, is_ref

Digest = Callable[[str], str]
"""Returns the keyed digest of a value, in hexadecimal digits."""

_TYPES = ("development", "staging", "production")
_STATES = ("running", "hibernated")
_APPROVAL = ("deploys", "variables")
_HEARTBEATS, _QUEUES = "heartbeats", "queues"
_WINDOW_KEYS = ("days", "from", "to", "timezone")
_LONGEST_TIME = 20


def read_window(field: Field) -> dict[str, Any] | None:
    """Return the window in its canonical form; None for null, which allows deploys at all times."""
    if field.is_null:
        return None
    members = field.known_members(_WINDOW_KEYS, needed=("days", "from", "to"))
    if members is None or not {"days", "from", "to"} <= members.keys():
        return None
    days = [day.choice(DAYS) for day in members["days"].items(len(DAYS), least=1) or ()]
    window = {"days": days, "from": _read_time(members["from"]), "to": _read_time(members["to"])}
    if "timezone" in members:
        window["timezone"] = read_timezone(members["timezone"])
    if not days or None in days or None in window.values():
        return None
    return windows.read_window(window).to_document()


def _read_time(field: Field) -> str | None:
    time = field.text(_LONGEST_TIME)
    if time is None:
        return None
    # Checked as a window that has only this time.
    window = {"days": list(DAYS), "from": time, "to": time}
    return time if apply_rule(field, windows.read_window, window) else None


def read_variables(field: Field, digest: Digest) -> tuple[dict[str, Value], frozenset[str]]:
    """Return the variables as `variables.NAME`, and the names of those that contain a binding's value."""
    members = field.members(allow_null=True) or {}
    if len(members) > MAX_VARIABLES:
        field.refuse(f"has {len(members):,} variables: the limit is {MAX_VARIABLES:,}")
        return {}, frozenset()
    fields: dict[str, Value] = {}
    bound: set[str] = set()
    for name, member in members.items():
        if NAME.fullmatch(name) is None:
            member.refuse(BAD_NAME)
        key = write_address((VARIABLES, name))
        fields[key] = _read_variable(name, member, digest)
        if member.node.bound:
            bound.add(key)
    return fields, frozenset(bound)


def _read_variable(name: str, field: Field, digest: Digest) -> Value:
    value = field.node.value
    if isinstance(value, Mapping):
        return _read_keep(field)
    if not isinstance(value, str):
        # Refuses the value.
        return field.text(MAX_VARIABLE_BYTES)
    fault = find_value_fault(name, value)
    if fault is not None:
        field.refuse(fault)
        return None
    return Secret(digest(value), value)


def _read_keep(field: Field) -> Value:
    keep = (field.known_members(("keep",), needed=("keep",)) or {}).get("keep")
    if keep is not None and keep.boolean() is False:
        keep.refuse("can only be true: remove the variable from the document, or name it under delete")
    return Keep.KEEP


def read_environment(slug: str, field: Field, digest: Digest) -> Iterator[DesiredResource]:
    """Yield the environment, then its heartbeats, queues and thresholds."""
    if not is_slug(slug):
        field.refuse("a slug has 1 to 60 of a-z, 0-9 and single hyphens, with a letter")
    address = ("environments", slug)
    members = field.known_members(_KEYS, allow_null=True) or {}
    fields, bound = read_settings(members, _SETTINGS), find_bound_fields(members, _SETTINGS)
    approval = members["approval"].known_members(_APPROVAL, allow_null=True) if "approval" in members else {}
    fields |= {f"approval.{key}": member.boolean() for key, member in (approval or {}).items()}
    if VARIABLES in members:
        variables, bound_variables = read_variables(members[VARIABLES], digest)
        fields, bound = fields | variables, bound | bound_variables
    yield DesiredResource(address, fields, field.node.line, bound)
    for name, member in _read_members(members, _HEARTBEATS).items():
        yield read_heartbeat((*address, _HEARTBEATS, name), member)
    for name, member in _read_members(members, _QUEUES).items():
        yield read_queue((*address, _QUEUES, name), member)
    for name, member in _read_members(members, THRESHOLDS).items():
        yield read_threshold((*address, THRESHOLDS, name), member)


def _read_members(members: Mapping[str, Field], key: str) -> Mapping[str, Field]:
    return (members[key].members(allow_null=True) if key in members else None) or {}


def _read_order(field: Field) -> int | None:
    order = field.integer()
    if order is None or 0 <= order <= MAX_ORDER:
        return order
    field.refuse(f"the order is a whole number from 0 to {MAX_ORDER}")
    return None


def _read_branch(field: Field) -> str | None:
    branch = None if field.is_null else field.text(LONGEST_REF)
    if branch is None or is_ref(branch):
        return branch
    field.refuse("is not a branch name that Git allows, such as main")
    return None


_SETTINGS: Mapping[str, Read] = {
    "name": read_name,
    "type": lambda field: field.choice(_TYPES),
    "order": _read_order,
    "branch": _read_branch,
    "replicas": lambda field: field.integer(1, MAX_REPLICAS),
    "state": lambda field: field.choice(_STATES),
    "locked": Field.boolean,
    "window": read_window,
    "wake_on_request": Field.boolean,
}
_KEYS = (*_SETTINGS, "approval", VARIABLES, _HEARTBEATS, _QUEUES, THRESHOLDS)
