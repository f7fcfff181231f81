"""Write the current state of a project as a configuration document that a person can edit.

PyYAML's emitter is not used: it follows YAML 1.1 and leaves `1e3` unquoted.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from control_domain.configurations.addresses import (
    GOALS,
    NOTIFICATIONS,
    VARIABLES,
    Address,
    find_kind,
    read_address,
    write_address,
)
from control_domain.configurations.resources import FIELDS, VERSION, CurrentResource, ProjectState
from control_domain.documents.core_scalars import BadScalar, read_scalar

_HEAD = """\
# This configuration document describes the project as it is now. Edit it, plan it to see what it would change, have
# the plan reviewed, and apply the review.
#
# A setting that the document does not name has its default. A resource that you remove from the document stays in the
# project. To delete it, name it under "delete:", for example environments.staging or sites.www.goals.Signup.
# Values of variables are secret: {keep: true} stands for the present value. Replace it by a new value, or by a
# binding such as "${database_url}", whose value you send with the document. Write $${ for a literal ${.
"""
_SECTIONS = ("project", "environments", "sites", NOTIFICATIONS)
_WIDEST = 110
_INDENT = "  "
# Texts that certainly need no quotes. YAML would allow more.
_PLAIN = re.compile(r"[\w/][\w./+-]*(?: [\w/][\w./+-]*)*")
# Texts that YAML 1.1 reads as other types are quoted too: many tools support no other version.
_YAML_1_1 = yaml.resolver.Resolver()
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _Block(dict[str, Any]):
    """A mapping written with one line per key; other mappings are written on one line."""


def write_document(state: ProjectState) -> str:
    """Return the project as a document without values of variables. Its plan contains no changes.

    The document may be longer than the limit for documents.
    """
    document = _Block(version=VERSION)
    for address in sorted(state.resources, key=lambda address: _rank(address, state)):
        parent = document
        for part in address[:-1]:
            parent = parent.setdefault(part, _Block())
        parent[address[-1]] = _build_resource(state.resources[address])
    return _HEAD + "".join(f"{line}\n" for line in (*_write_waiting(state), *_write_block(document)))


def _rank(address: Address, state: ProjectState) -> tuple[Any, ...]:
    """Return the sort key: environments in the order of promotion, each before its monitors."""
    environment = state.resources.get(address[:2])
    order = 0 if environment is None else environment.fields.get("order", 0)
    return _SECTIONS.index(address[0]), order, address


def _write_waiting(state: ProjectState) -> Iterator[str]:
    for address in sorted(state.awaiting_approval):
        yield f"# The variables of {write_address(address)} are those that wait for a second person's approval."


def _build_resource(resource: CurrentResource) -> dict[str, Any]:
    """Return the resource's settings that differ from the defaults, and its members."""
    kind = find_kind(resource.address)
    assert kind is not None
    settings: dict[str, Any] = {}
    for field, default in FIELDS[kind].items():
        if resource.fields[field] != default:
            outer, dot, inner = field.partition(".")
            parent = settings.setdefault(outer, {}) if dot else settings
            parent[inner or outer] = resource.fields[field]
    members = _find_members(resource)
    if kind == "environment" and members:
        settings[VARIABLES] = _Block({name: {"keep": True} for name in members})
    if kind == "site" and members:
        settings[GOALS] = [{"name": name, **target} for name, target in members.items()]
    return _Block(settings) if kind in ("environment", "site") else settings


def _find_members(resource: CurrentResource) -> Mapping[str, Any]:
    """Return the variables or goals by their names."""
    kind = find_kind(resource.address)
    assert kind is not None
    parent = write_address(resource.address)
    members = sorted(resource.fields.keys() - FIELDS[kind].keys())
    return {read_address(f"{parent}.{field}")[-1]: resource.fields[field] for field in members}


def _write_block(block: _Block, indent: str = "") -> Iterator[str]:
    for key, value in block.items():
        begin = f"{indent}{_write_text(key)}:"
        if isinstance(value, _Block):
            yield begin
            yield from _write_block(value, indent + _INDENT)
            continue
        line = f"{begin} {_write_flow(value)}"
        has_parts = isinstance(value, list) and any(isinstance(item, dict) for item in value)
        if has_parts or (isinstance(value, list) and len(line) > _WIDEST):
            yield begin
            yield from (f"{indent}{_INDENT}- {_write_flow(item)}" for item in value)
        else:
            yield line


def _write_flow(value: Any) -> str:
    """Return the value on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            # YAML 1.1 reads an exponent as part of a number only after a dot.
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e")
        case str():
            # Escaped: it would begin a binding otherwise. Keys have no bindings.
            return _write_text(value.replace("${", "$${"))
        case Mapping():
            members = (f"{_write_text(key)}: {_write_flow(member)}" for key, member in value.items())
            return f"{{{', '.join(members)}}}"
        case _:
            return f"[{', '.join(map(_write_flow, value))}]"


def _write_text(text: str) -> str:
    """Return the text, unquoted if every YAML reader reads it as this text."""
    if _PLAIN.fullmatch(text) and _is_text(text):
        return text
    return f'"{"".join(map(_escape, text))}"'


def _is_text(plain: str) -> bool:
    """True if YAML readers read the unquoted scalar as a text."""
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
