"""Reads the variables of an environment."""

from collections.abc import Callable, Mapping

from control_domain.configurations.addresses import VARIABLES, write_address
from control_domain.configurations.values import Keep, Secret, Value
from control_domain.documents.field import Field
from control_domain.variables.dotenv import BAD_NAME, MAX_VARIABLE_BYTES, MAX_VARIABLES, NAME, value_fault

Digest = Callable[[str], str]
"""What tells whether two values are alike, in hexadecimal digits."""


def read_variables(field: Field, digest: Digest) -> tuple[dict[str, Value], frozenset[str]]:
    """Those of the document as `variables.NAME`; and which of them a binding gave something to."""
    members = field.members(allow_null=True) or {}
    if len(members) > MAX_VARIABLES:
        field.refuse(f"has {len(members):,} variables: {MAX_VARIABLES:,} are the most")
        return {}, frozenset()
    fields: dict[str, Value] = {}
    bound: set[str] = set()
    for name, one in members.items():
        if NAME.fullmatch(name) is None:
            one.refuse(BAD_NAME)
        called = write_address((VARIABLES, name))
        fields[called] = _read_variable(name, one, digest)
        if one.node.bound:
            bound.add(called)
    return fields, frozenset(bound)


def _read_variable(name: str, field: Field, digest: Digest) -> Value:
    value = field.node.value
    if isinstance(value, Mapping):
        return _read_keep(field)
    if not isinstance(value, str):
        # It says so.
        return field.text(MAX_VARIABLE_BYTES)
    fault = value_fault(name, value)
    if fault is not None:
        field.refuse(fault)
        return None
    return Secret(digest(value), value)


def _read_keep(field: Field) -> Value:
    keep = (field.known_members(("keep",), needed=("keep",)) or {}).get("keep")
    if keep is not None and keep.boolean() is False:
        keep.refuse("can only be true: take the variable out of the document, or name it under delete")
    return Keep.KEEP
