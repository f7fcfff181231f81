"""Reads an environment of a configuration document, with its variables and what is watched in it."""

from collections.abc import Iterator, Mapping

from control_domain.configurations.addresses import VARIABLES
from control_domain.configurations.documents.document import Wanted
from control_domain.configurations.documents.read_monitors import read_heartbeat, read_queue
from control_domain.configurations.documents.read_settings import (
    Read,
    find_bound,
    obey,
    read_name,
    read_settings,
)
from control_domain.configurations.documents.read_variables import Digest, read_variables
from control_domain.configurations.documents.read_window import read_window
from control_domain.documents.field import Field, is_slug
from control_domain.environments import read_wanted
from control_domain.environments.operations import MOST_REPLICAS
from pipeline_contracts.git_refs import LONGEST_REF, is_ref

_TYPES = ("development", "staging", "production")
_STATES = ("running", "hibernated")
_APPROVAL = ("deploys", "variables")
_HEARTBEATS, _QUEUES = "heartbeats", "queues"


def read_environment(slug: str, field: Field, digest: Digest) -> Iterator[Wanted]:
    """The environment and, after it, its heartbeats and queues."""
    if not is_slug(slug):
        field.refuse("a slug has 1 to 60 of a-z, 0-9 and single hyphens, with a letter")
    address = ("environments", slug)
    members = field.known_members(_KEYS, allow_null=True) or {}
    fields, bound = read_settings(members, _SETTINGS), find_bound(members, _SETTINGS)
    approval = members["approval"].known_members(_APPROVAL, allow_null=True) if "approval" in members else {}
    fields |= {f"approval.{called}": one.boolean() for called, one in (approval or {}).items()}
    if VARIABLES in members:
        variables, bound_variables = read_variables(members[VARIABLES], digest)
        fields, bound = fields | variables, bound | bound_variables
    yield Wanted(address, fields, field.node.line, bound)
    for called, one in _read_members(members, _HEARTBEATS).items():
        yield read_heartbeat((*address, _HEARTBEATS, called), one)
    for called, one in _read_members(members, _QUEUES).items():
        yield read_queue((*address, _QUEUES, called), one)


def _read_members(members: Mapping[str, Field], key: str) -> Mapping[str, Field]:
    return (members[key].members(allow_null=True) if key in members else None) or {}


def _read_order(field: Field) -> int | None:
    order = field.integer()
    if order is None:
        return None
    return obey(field, read_wanted.read_position, {"order": order})


def _read_branch(field: Field) -> str | None:
    branch = None if field.is_null else field.text(LONGEST_REF)
    if branch is None or is_ref(branch):
        return branch
    field.refuse("is no name of a branch that Git allows; one is main")
    return None


_SETTINGS: Mapping[str, Read] = {
    "name": read_name,
    "type": lambda field: field.choice(_TYPES),
    "order": _read_order,
    "branch": _read_branch,
    "replicas": lambda field: field.integer(1, MOST_REPLICAS),
    "state": lambda field: field.choice(_STATES),
    "locked": Field.boolean,
    "window": read_window,
    "wake_on_request": Field.boolean,
}
_KEYS = (*_SETTINGS, "approval", VARIABLES, _HEARTBEATS, _QUEUES)
