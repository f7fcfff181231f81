"""Print the plan of a configuration document, and its steps, as lines of a diff."""

import json
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.messages import qualify_commands

# Text that YAML also reads as text without quotes.
_UNQUOTED = re.compile(r"[A-Za-z/](?:[\w./@+-]|:(?! |$)| (?=[\w./@+-]))*(?<! )|\d+[smhd]")
_NOT_TEXT = frozenset({"none", "null", "true", "false"})
_MARKS = {"create": "+", "update": "~", "delete": "-"}
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_MEMBERS = ("variables.", "variables[", "goals.", "goals[")
_INDENT = "    "
_ENVIRONMENT = re.compile(r"environments\.[^.\[]+")


def open_console(*, stderr: bool = False) -> Console:
    """Return a console that uses colours on a terminal and cuts no line."""
    return Console(highlight=False, soft_wrap=True, stderr=stderr)


def show_plan(console: Console, project: str, plan: dict[str, Any]) -> None:
    """Print the steps of a plan, their count, pending approvals, and resources that the document does not mention.

    `project` is the slug.
    """
    for step in plan["actions"]:
        for line in (*format_step(step), Text()):
            console.print(line)
    console.print(Text(_describe_counts(project, plan), style="bold"))
    if any(
        step["action"] == "delete" and _ENVIRONMENT.fullmatch(step["resource"]) for step in plan["actions"]
    ):
        console.print(
            "Deleting an environment also deletes its keys, monitors, rules, variables and releases."
        )
    if plan["awaiting_approval"]:
        console.print()
        console.print(
            qualify_commands(
                "These wait for a second person (`pharos approvals`); the plan assumes that they are approved:"
            )
        )
        _show_addresses(console, plan["awaiting_approval"], "yellow")
    if plan["unmanaged"]:
        console.print()
        console.print(Text("The document does not mention these, and they stay unchanged:", style="dim"))
        _show_addresses(console, plan["unmanaged"], "dim")
        console.print(
            Text(
                "To remove a resource, a variable or a goal, list it under delete: in the document; to change anything "
                "else, set it there.",
                style="dim",
            )
        )


def _describe_counts(project: str, plan: dict[str, Any]) -> str:
    if not plan["actions"]:
        return f"No changes: {project} matches the document."
    counts = plan["summary"]
    return f"{counts['create']} to create, {counts['update']} to change, {counts['delete']} to delete."


def _show_addresses(console: Console, addresses: Iterable[str], style: str) -> None:
    for address in addresses:
        console.print(Text(_INDENT + escape_unprintable(address), style=style))


def format_step(step: dict[str, Any]) -> Iterable[Text]:
    """Yield the lines of a step of a plan or a run: the resource, then its fields."""
    yield format_resource(step)
    for change in step["changes"]:
        yield _format_change(step["action"], change)


def format_resource(step: dict[str, Any]) -> Text:
    """Return the first line of a step: its kind of change and its resource."""
    mark = _MARKS[step["action"]]
    return Text(f"{mark} {escape_unprintable(step['resource'])}", style=f"bold {_COLOURS[mark]}")


def _format_change(verb: str, change: dict[str, Any]) -> Text:
    mark = _MARKS[verb]
    if verb == "update" and change["field"].startswith(_MEMBERS):
        mark = "+" if change["from"] is None else "-" if change["to"] is None else "~"
    line = Text(f"{_INDENT}{mark} {escape_unprintable(change['field'])}: ", style=_COLOURS[mark])
    if mark != "+":
        line.append(_format_side(change, "from"))
    if mark == "~":
        line.append(" → ")
    if mark != "-":
        line.append(_format_side(change, "to"))
    return line


def _format_side(change: dict[str, Any], side: str) -> str:
    if not change.get("sensitive"):
        return format_value(change[side])
    parts = [change[side] or "none", change.get(f"{side}_digest")]
    return " ".join(part for part in parts if part)


def format_value(value: Any) -> str:
    """Return the value on one line as in a document; null is `none`."""
    match value:
        case None:
            return "none"
        case str():
            is_unquoted = _UNQUOTED.fullmatch(value) and value.lower() not in _NOT_TEXT
            return escape_unprintable(value if is_unquoted else json.dumps(value, ensure_ascii=False))
        case list():
            return f"[{', '.join(map(format_value, value))}]"
        case dict():
            members = (f"{format_value(name)}: {format_value(member)}" for name, member in value.items())
            return f"{{{', '.join(members)}}}"
    return json.dumps(value)


def escape_unprintable(text: str) -> str:
    """Return the text with JSON escapes for characters that a terminal interprets or does not show."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
