"""Read settings of a configuration document by the rules of the API."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from control_domain.configurations.documents.bindings import has_binding
from control_domain.configurations.resources import Value
from control_domain.documents.field import Field
from control_domain.sites.site_rules import is_timezone
from control_domain.slugs import MAX_NAME_LENGTH, is_name

T = TypeVar("T")
V = TypeVar("V")
Read = Callable[[Field], Value]

_LONGEST_TIMEZONE = 64
_NO_TIMEZONE = "is not a time zone; write a name like Europe/Oslo, or UTC"
BAD_NAME = f"a name has 1 to {MAX_NAME_LENGTH} printable characters, and no blanks around them"


def read_settings(members: Mapping[str, Field], readers: Mapping[str, Read]) -> dict[str, Value]:
    """Return the given settings by name, with arbitrary values in place of faulty ones."""
    return {key: read(members[key]) for key, read in readers.items() if key in members}


def find_bound_fields(members: Mapping[str, Field], readers: Iterable[str]) -> frozenset[str]:
    """Return the names of the settings that contain a binding's value."""
    return frozenset(key for key in readers if key in members and has_binding(members[key].node))


def without_bindings(members: Mapping[str, Field]) -> Mapping[str, Field]:
    """Return the settings without a binding's value, and refuse the others: these settings appear in plans and
    pages."""
    for member in members.values():
        if has_binding(member.node):
            member.refuse("is not secret, so it cannot contain a binding")
    return {key: member for key, member in members.items() if not has_binding(member.node)}


def apply_rule(
    field: Field,
    rule: Callable[[V], T],
    value: V,
    message_if_bound: str = "has a value that is not allowed here",
) -> T | None:
    """Return the result of the rule; if the rule raises `ValueError`, refuse the field and return None.

    The error's message may contain the value: if a binding gave the value, `message_if_bound` replaces the message.
    """
    try:
        return rule(value)
    except ValueError as error:
        message = str(error).removesuffix(".")
    # Outside the except block: an error raised inside would carry the rule's error and thereby the value.
    field.refuse(message_if_bound if has_binding(field.node) else f"{message[:1].lower()}{message[1:]}")
    return None


def read_name(field: Field) -> str | None:
    """Return the name without surrounding blanks, as the API does."""
    name = field.text(MAX_NAME_LENGTH)
    if name is None or is_name(name.strip()):
        return name and name.strip()
    field.refuse(BAD_NAME)
    return None


def is_trimmed_name(text: str) -> bool:
    """True if the key is a valid name without surrounding blanks."""
    return is_name(text) and text == text.strip()


def read_timezone(field: Field) -> str | None:
    """Return an IANA time zone name."""
    timezone = field.text(_LONGEST_TIMEZONE)
    if timezone is None:
        return None
    return apply_rule(field, _check_timezone, timezone, _NO_TIMEZONE)


def _check_timezone(timezone: str) -> str:
    if not is_timezone(timezone):
        raise ValueError(f"{timezone!r} {_NO_TIMEZONE}")
    return timezone
