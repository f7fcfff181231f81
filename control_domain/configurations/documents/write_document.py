"""Writes a project as it is as a configuration document that a person can go on from.

Not with PyYAML's emitter: it quotes what YAML 1.1 takes for something else than text, and leaves `1e3` without quotes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from control_domain.configurations.addresses import (
    GOALS,
    VARIABLES,
    Address,
    find_kind,
    read_address,
    write_address,
)
from control_domain.configurations.resources import FIELDS, VERSION, CurrentResource, ProjectState
from control_domain.documents.core_scalars import BadScalar, read_scalar

_HEAD = """\
# The project as it is: a configuration document. Change what shall be different, plan it to see what that does, have
# the plan reviewed, and apply the review.
#
# A setting that is not here is at its default. Whatever you take out of the document stays as it is; what shall be
# removed is named under "delete:", such as environments.staging or sites.www.goals.Signup.
# Values of variables are secret and not here: {keep: true} leaves one as it is. In its place stands a new value, or
# a binding like "${database_url}", whose value is sent along with the document. A ${ that is text is written $${.
"""
_SECTIONS = ("project", "environments", "sites")
_WIDEST = 110
_INDENT = "  "
# Of what needs no quotes, what nobody has to think about.
_PLAIN = re.compile(r"[\w/][\w./+-]*(?: [\w/][\w./+-]*)*")
# What is no text to YAML 1.1 has quotes too: many a tool knows no other.
_YAML_1_1 = yaml.resolver.Resolver()
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _Block(dict[str, Any]):
    """A mapping with a line for each of its keys. Another one stands on one line as a whole."""


def write_document(state: ProjectState) -> str:
    """The project as a document of version 2, without the value of any variable. To plan it changes nothing.

    It may be longer than documents are taken.
    """
    document = _Block(version=VERSION)
    for address in sorted(state.resources, key=lambda address: _place(address, state)):
        holder = document
        for part in address[:-1]:
            holder = holder.setdefault(part, _Block())
        holder[address[-1]] = _tell(state.resources[address])
    return _HEAD + "".join(f"{line}\n" for line in (*_tell_waiting(state), *_write(document)))


def _place(address: Address, state: ProjectState) -> tuple[Any, ...]:
    """Environments in the order in which they are promoted to; each before what it holds."""
    order = state.resources[address[:2]].fields.get("order", 0)
    return _SECTIONS.index(address[0]), order, address


def _tell_waiting(state: ProjectState) -> Iterator[str]:
    for address in sorted(state.awaiting_approval):
        yield f"# The variables of {write_address(address)} are those that wait for a second person's approval."


def _tell(present: CurrentResource) -> dict[str, Any]:
    """What the document says of a resource: what is not as it would be by default, and its members."""
    kind = find_kind(present.address)
    assert kind is not None
    told: dict[str, Any] = {}
    for field, default in FIELDS[kind].items():
        if present.fields[field] != default:
            outer, dot, inner = field.partition(".")
            holder = told.setdefault(outer, {}) if dot else told
            holder[inner or outer] = present.fields[field]
    members = _members(present)
    if kind == "environment" and members:
        told[VARIABLES] = _Block({name: {"keep": True} for name in members})
    if kind == "site" and members:
        told[GOALS] = [{"name": name, **target} for name, target in members.items()]
    return _Block(told) if kind in ("environment", "site") else told


def _members(present: CurrentResource) -> Mapping[str, Any]:
    """Variables or goals by their names."""
    kind = find_kind(present.address)
    assert kind is not None
    told = write_address(present.address)
    members = sorted(present.fields.keys() - FIELDS[kind].keys())
    return {read_address(f"{told}.{field}")[-1]: present.fields[field] for field in members}


def _write(block: _Block, indent: str = "") -> Iterator[str]:
    """Its lines."""
    for key, value in block.items():
        begin = f"{indent}{_write_text(key)}:"
        if isinstance(value, _Block):
            yield begin
            yield from _write(value, indent + _INDENT)
            continue
        line = f"{begin} {_write_flow(value)}"
        has_parts = isinstance(value, list) and any(isinstance(item, dict) for item in value)
        if has_parts or (isinstance(value, list) and len(line) > _WIDEST):
            yield begin
            yield from (f"{indent}{_INDENT}- {_write_flow(item)}" for item in value)
        else:
            yield line


def _write_flow(value: Any) -> str:
    """A value on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            # Without that it would begin a binding. There are none in keys.
            return _write_text(value.replace("${", "$${"))
        case Mapping():
            members = (f"{_write_text(key)}: {_write_flow(member)}" for key, member in value.items())
            return f"{{{', '.join(members)}}}"
        case _:
            return f"[{', '.join(map(_write_flow, value))}]"


def _write_text(text: str) -> str:
    """Without quotes where every reader takes it for this text."""
    if _PLAIN.fullmatch(text) and _is_text(text):
        return text
    return f'"{"".join(map(_escape, text))}"'


def _is_text(plain: str) -> bool:
    """Whether it is a text where it stands without quotes."""
    try:
        is_text = isinstance(read_scalar(plain, None, True), str)
    except BadScalar:
        return False
    tag = _YAML_1_1.resolve(yaml.ScalarNode, plain, (True, False))
    return is_text and tag == yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}" if character > "\uffff" else f"\\u{ord(character):04x}"
