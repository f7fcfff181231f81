"""Reads settings of a configuration document, by the rules that an operator's commands have."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from control_domain.configurations.documents.bindings import has_binding
from control_domain.configurations.resources import Value
from control_domain.documents.field import Field
from control_domain.refusals import Refused
from control_domain.sites import params as wanted_of_site
from control_domain.slugs import LONGEST_NAME, is_name

T = TypeVar("T")
V = TypeVar("V")
Read = Callable[[Field], Value]

_LONGEST_TIMEZONE = 64
BAD_NAME = f"a name has 1 to {LONGEST_NAME} printable characters, and no blanks around them"


def read_settings(members: Mapping[str, Field], readers: Mapping[str, Read]) -> dict[str, Value]:
    """The settings that are there, by name; with anything in place of what is at fault."""
    return {called: read(members[called]) for called, read in readers.items() if called in members}


def find_bound(members: Mapping[str, Field], readers: Iterable[str]) -> frozenset[str]:
    """The names of those settings to which a binding gave something."""
    return frozenset(called for called in readers if called in members and has_binding(members[called].node))


def obey(
    field: Field, rule: Callable[[V], T], value: V, otherwise: str = "is not what can be taken here"
) -> T | None:
    """What a rule makes of the field's value; None once it was refused. The rule raises `Refused` or `ValueError`, in
    whose words the value may be: `otherwise` is told where a binding gave it."""
    try:
        return rule(value)
    except (Refused, ValueError) as error:
        told = str(error).removesuffix(".")
    # Out there: what is raised here would have the rule's error with it, and so the value.
    field.refuse(otherwise if has_binding(field.node) else f"{told[:1].lower()}{told[1:]}")
    return None


def read_name(field: Field) -> str | None:
    """What something is called. Blanks around it are cut off, as from the command line."""
    given = field.text(LONGEST_NAME)
    if given is None or is_name(given.strip()):
        return given and given.strip()
    field.refuse(BAD_NAME)
    return None


def is_called(text: str) -> bool:
    """Whether a key may be a name: nobody looks for blanks around it."""
    return is_name(text) and text == text.strip()


def read_timezone(field: Field) -> str | None:
    """An IANA name."""
    given = field.text(_LONGEST_TIMEZONE)
    if given is None:
        return None
    rule = "is no time zone; write one like Europe/Oslo, or UTC"
    return obey(field, wanted_of_site.read_timezone, {"timezone": given}, rule)
