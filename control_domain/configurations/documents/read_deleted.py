"""Read the addresses that a configuration document deletes."""

import json
from collections.abc import Iterable, Mapping

from control_domain.configurations.addresses import (
    PROJECT,
    VARIABLES,
    Address,
    BadAddress,
    find_kind,
    find_names,
    read_address,
    split_member,
)
from control_domain.configurations.documents.read_settings import is_trimmed_name
from control_domain.configurations.resources import FIELDS, WITHOUT_DEFAULT, DesiredResource
from control_domain.documents.field import Field
from control_domain.slugs import is_slug
from control_domain.variables.dotenv import NAME

MOST_DELETED = 1000

# Two names of 100 characters, each written as \uXXXX, and the text around them.
_LONGEST_ADDRESS = 1500


def read_deleted(field: Field, resources: Iterable[DesiredResource]) -> dict[Address, int]:
    """Return the deleted addresses, each with its line. `resources`: the document's desired resources.

    Allowed are addresses of resources that do not exist, or that are deleted together with their parent.
    """
    desired = {resource.address: resource for resource in resources}
    deleted: dict[Address, int] = {}
    for item in field.items(MOST_DELETED, allow_null=True) or ():
        address = _read_address(item)
        if address is None:
            continue
        line = _find_desired_line(address, desired)
        if address in deleted:
            item.refuse(f"is already named on line {deleted[address]}")
        elif line is not None:
            item.refuse(f"is also described from line {line} on: remove it there or here")
        else:
            deleted[address] = item.node.line
    return deleted


def _find_desired_line(address: Address, desired: Mapping[Address, DesiredResource]) -> int | None:
    """Return the line of the desired resource that has this address, or that has it as a member."""
    if address in desired:
        return desired[address].line
    member = split_member(address)
    if member is None or member[0] not in desired or member[1] not in desired[member[0]].fields:
        return None
    return desired[member[0]].line


def _read_address(field: Field) -> Address | None:
    # Addresses are shown in plans.
    if field.node.bound:
        field.refuse("is not secret, so it cannot contain a binding")
        return None
    text = field.text(_LONGEST_ADDRESS)
    if text is None:
        return None
    try:
        address = read_address(text)
    except BadAddress as error:
        field.refuse(_explain_setting(text) or str(error))
        return None
    if address == PROJECT:
        field.refuse("is the project itself, which a document cannot delete")
    elif not _has_valid_names(address):
        field.refuse("cannot be the address of a resource: it contains a name that is not valid")
    else:
        return address
    return None


def _explain_setting(text: str) -> str | None:
    """Return advice if the text is the address of a setting: settings cannot be deleted."""
    for kind, fields in FIELDS.items():
        for setting, default in fields.items():
            if text.endswith(f".{setting}") and _is_kind(text.removesuffix(f".{setting}"), kind):
                if setting in WITHOUT_DEFAULT[kind]:
                    return f"is a setting, which cannot be deleted: write the new value of {setting}"
                advice = "write its default to reset it"
                return f"is a setting, which cannot be deleted: {advice}, {json.dumps(default)}"
    return None


def _is_kind(text: str, kind: str) -> bool:
    try:
        return find_kind(read_address(text)) == kind
    except BadAddress:
        return False


def _has_valid_names(address: Address) -> bool:
    if address[0] == "environments" and not is_slug(address[1]):
        return False
    if address[2:3] == (VARIABLES,):
        return NAME.fullmatch(address[3]) is not None
    return all(is_trimmed_name(name) for name in find_names(address))
