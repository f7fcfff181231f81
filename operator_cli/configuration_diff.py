"""Prints what a configuration document changes, so that people see it."""

import json
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.typed_commands import typed_commands

# As YAML reads it, this is text without quotes too.
_PLAIN = re.compile(r"[A-Za-z/](?:[\w./@+-]|:(?! |$)| (?=[\w./@+-]))*(?<! )|\d+[smhd]")
_NO_TEXT = frozenset({"none", "null", "true", "false"})
_MARKS = {"create": "+", "update": "~", "delete": "-"}
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_MEMBERS = ("variables.", "variables[", "goals.", "goals[")
_INDENT = "    "
_ENVIRONMENT = re.compile(r"environments\.[^.\[]+")


def open_console(*, stderr: bool = False) -> Console:
    """Where it is printed: with colours on a terminal; no line is cut."""
    return Console(highlight=False, soft_wrap=True, stderr=stderr)


def show_plan(console: Console, project: dict[str, Any], plan: dict[str, Any]) -> None:
    """Each resource that is made, changed or removed with its fields; then how many, what waits, and what the document
    leaves alone."""
    for action in plan["actions"]:
        for line in (*draw_action(action), Text()):
            console.print(line)
    console.print(Text(_summary(project, plan), style="bold"))
    if any(
        action["action"] == "delete" and _ENVIRONMENT.fullmatch(action["resource"])
        for action in plan["actions"]
    ):
        console.print("An environment goes with its keys, heartbeats, queues, variables and releases.")
    if plan["awaiting_approval"]:
        console.print()
        console.print(
            typed_commands(
                "These wait for a second person, and are compared as they will be (`pharos approvals`):"
            )
        )
        _show_addresses(console, plan["awaiting_approval"], "yellow")
    if plan["unmanaged"]:
        console.print()
        console.print(Text("The document does not say these, and they stay as they are:", style="dim"))
        _show_addresses(console, plan["unmanaged"], "dim")
        console.print(
            Text(
                "To remove a resource, a variable or a goal, list it under delete: in the document; to change anything "
                "else, say it there.",
                style="dim",
            )
        )


def _summary(project: dict[str, Any], plan: dict[str, Any]) -> str:
    if not plan["actions"]:
        return f"No changes: {project['slug']} is as the document says."
    counts = plan["summary"]
    return f"{counts['create']} to create, {counts['update']} to change, {counts['delete']} to delete."


def _show_addresses(console: Console, addresses: Iterable[str], style: str) -> None:
    for address in addresses:
        console.print(Text(_INDENT + printable(address), style=style))


def draw_action(action: dict[str, Any]) -> Iterable[Text]:
    """A plan's action, or an operation, as lines: the resource, then its fields."""
    yield draw_resource(action)
    for change in action["changes"]:
        yield _draw_change(action["action"], change)


def draw_resource(action: dict[str, Any]) -> Text:
    """Its first line."""
    mark = _MARKS[action["action"]]
    return Text(f"{mark} {printable(action['resource'])}", style=f"bold {_COLOURS[mark]}")


def _draw_change(verb: str, change: dict[str, Any]) -> Text:
    mark = _MARKS[verb]
    if verb == "update" and change["field"].startswith(_MEMBERS):
        mark = "+" if change["from"] is None else "-" if change["to"] is None else "~"
    told = Text(f"{_INDENT}{mark} {printable(change['field'])}: ", style=_COLOURS[mark])
    if mark != "+":
        told.append(_side(change, "from"))
    if mark == "~":
        told.append(" → ")
    if mark != "-":
        told.append(_side(change, "to"))
    return told


def _side(change: dict[str, Any], side: str) -> str:
    if not change.get("sensitive"):
        return write_value(change[side])
    told = [change[side] or "none", change.get(f"{side}_digest")]
    return " ".join(part for part in told if part)


def write_value(value: Any) -> str:
    """As one would write it in a document, on one line; null is `none`."""
    match value:
        case None:
            return "none"
        case str():
            is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NO_TEXT
            return printable(value if is_plain else json.dumps(value, ensure_ascii=False))
        case list():
            return f"[{', '.join(map(write_value, value))}]"
        case dict():
            told = (f"{write_value(name)}: {write_value(one)}" for name, one in value.items())
            return f"{{{', '.join(told)}}}"
    return json.dumps(value)


def printable(text: str) -> str:
    """The text, in which what acts on a terminal or is not seen stands as JSON escapes it."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
