"""Reads what a configuration document wants gone."""

import json
from collections.abc import Iterable, Mapping

from control_domain.configurations.addresses import (
    PROJECT,
    VARIABLES,
    Address,
    BadAddress,
    find_kind,
    read_address,
    split_member,
)
from control_domain.configurations.documents.read_settings import is_called
from control_domain.configurations.resources import FIELDS, WITHOUT_DEFAULT, DesiredResource
from control_domain.documents.field import Field, is_slug
from control_domain.variables.dotenv import NAME

MOST_DELETED = 1000

# Two names of 100 characters each, every one written as \uXXXX, and what is around them.
_LONGEST_ADDRESS = 1500


def read_deleted(field: Field, resources: Iterable[DesiredResource]) -> dict[Address, int]:
    """The addresses, each with its line; `resources` are what the document wants. What is in something else that goes
    may be named as well, and so may what there is not."""
    wanted = {one.address: one for one in resources}
    deleted: dict[Address, int] = {}
    for item in field.items(MOST_DELETED, allow_null=True) or ():
        address = _read_address(item)
        if address is None:
            continue
        line = _find_wanted(address, wanted)
        if address in deleted:
            item.refuse(f"is named on line {deleted[address]} already")
        elif line is not None:
            item.refuse(f"is wanted as well, by what begins on line {line}: take it out there or here")
        else:
            deleted[address] = item.node.line
    return deleted


def _find_wanted(address: Address, wanted: Mapping[Address, DesiredResource]) -> int | None:
    """The line of the resource that is the address's, or has it as a member. What is in a resource makes that one
    wanted."""
    if address in wanted:
        return wanted[address].line
    member = split_member(address)
    if member is None or member[0] not in wanted or member[1] not in wanted[member[0]].fields:
        return None
    return wanted[member[0]].line


def _read_address(field: Field) -> Address | None:
    # Plans are full of them.
    if field.node.bound:
        field.refuse("is shown everywhere: a binding cannot give any of it")
        return None
    text = field.text(_LONGEST_ADDRESS)
    if text is None:
        return None
    try:
        address = read_address(text)
    except BadAddress as error:
        field.refuse(_tell_setting(text) or str(error))
        return None
    if address == PROJECT:
        field.refuse("is the project itself, which no document deletes")
    elif not _can_be(address):
        field.refuse("is the address of nothing that there can be: its names are not such as are taken")
    else:
        return address
    return None


def _tell_setting(text: str) -> str | None:
    """What to do where the text is the address of a setting: a resource has all of them for ever."""
    for kind, fields in FIELDS.items():
        for setting, default in fields.items():
            if text.endswith(f".{setting}") and _is_kind(text.removesuffix(f".{setting}"), kind):
                if setting in WITHOUT_DEFAULT[kind]:
                    return f"is a setting, which cannot be deleted: write what {setting} shall be"
                told = json.dumps(default)
                return f"is a setting, which cannot be deleted: write its default to set it back, {told}"
    return None


def _is_kind(text: str, kind: str) -> bool:
    try:
        return find_kind(read_address(text)) == kind
    except BadAddress:
        return False


def _can_be(address: Address) -> bool:
    """Whether names are such as resources, variables and goals have."""
    if address[0] == "environments" and not is_slug(address[1]):
        return False
    if address[2:3] == (VARIABLES,):
        return NAME.fullmatch(address[3]) is not None
    return all(is_called(name) for name in address[1::2])
