"""Prints deployments, and what waits for a second person, as tables."""

import re
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import show_ago
from operator_cli.plain_text import cell
from operator_cli.typed_commands import typed_commands

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_COLOURS = {
    "queued": "cyan",
    "deploying": "cyan",
    "running": "cyan",
    "awaiting_approval": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "rejected": "red",
    "canceled": "dim",
}


def show_deployments(deployments: list[dict[str, Any]]) -> None:
    """One line each, newest first."""
    if not deployments:
        print(typed_commands("No deployments yet. `pharos deploy` asks for one."))
        return
    table = _table("ID", "Status", "Environment", "Trigger", "What", "Asked by", "When")
    for deployment in deployments:
        status = deployment["status"]
        table.add_row(
            str(deployment["id"]),
            Text(status.replace("_", " "), style=_COLOURS.get(status, "")),
            cell(_called(deployment)),
            deployment["trigger"],
            cell(_what(deployment), most=60),
            cell(deployment["asked_by"] or "-"),
            show_ago(deployment["created_at"]),
        )
    Console().print(table)


def show_approvals(deployments: list[dict[str, Any]], changes: list[dict[str, Any]]) -> None:
    """The deployments and the changes of variables that wait."""
    if not deployments and not changes:
        print("Nothing waits for approval.")
        return
    console = Console()
    if deployments:
        table = _table("Deployment", "Environment", "Trigger", "What", "Asked by", "When")
        for deployment in deployments:
            table.add_row(
                str(deployment["id"]),
                cell(_called(deployment)),
                deployment["trigger"],
                cell(_what(deployment), most=60),
                cell(deployment["asked_by"] or "-"),
                show_ago(deployment["created_at"]),
            )
        console.print(table)
        for deployment in deployments:
            console.print(f"\nDeployment {deployment['id']} would run")
            for name, value in tell_inputs(deployment):
                console.print(Text(f"  {name}: ").append(cell(value, most=300)), soft_wrap=True)
    if deployments and changes:
        console.print()
    if changes:
        table = _table("Variables", "Environment", "Names", "Asked by", "When")
        for change in changes:
            table.add_row(
                str(change["id"]),
                cell(_called(change)),
                _names(change),
                cell(change["asked_by"] or "-"),
                show_ago(change["created_at"]),
            )
        console.print(table)
    for warning in dict.fromkeys(change["warning"] for change in changes if "warning" in change):
        print(warning)


def tell_inputs(deployment: dict[str, Any]) -> list[tuple[str, str]]:
    """What an approval of the deployment is bound to, by name."""
    told = [("repository", deployment["repository_url"]), ("commit", _commit(deployment))]
    told.append(("variables", _version(deployment["variables"], "none")))
    told.append(("workflow", _workflow(deployment["workflow"], deployment["project"])))
    if deployment["digest"] is not None:
        told.append(("digest", deployment["digest"]))
    if deployment["changed_since_asked"] is not None:
        changed = f"{deployment['changed_since_asked']}: approve it with --digest"
        told.append(("changed since it was asked for", changed))
    return told


def _commit(deployment: dict[str, Any]) -> str:
    fault, subject = deployment["commit_fault"], deployment["commit_subject"]
    if deployment["revision"] is None:
        return "not known yet" if fault is None else f"not known: {fault}"
    if subject is not None:
        return f"{deployment['revision']} {subject!r} by {deployment['commit_author']}"
    return str(deployment["revision"]) if fault is None else f"{deployment['revision']} ({fault})"


def _workflow(told: dict[str, Any] | None, project: str) -> str:
    """Which one, the beginning of its hash, and how its text is read."""
    if told is None:
        return "pharos.yaml of the commit"
    text = "text not kept" if told["sha256"] is None else f"SHA-256 {told['sha256'][:16]}"
    if told["release_of"] is not None:
        read = typed_commands("`pharos approvals --json` has its text")
        return f"that of the release of deployment {told['release_of']}, {text}; {read}"
    read = typed_commands(f"`pharos workflow show --project {project}` prints it")
    return f"{_version(told, '')}, {text}; {read}"


def _version(told: dict[str, Any] | None, none: str) -> str:
    if told is None:
        return none
    by = f" by {told['set_by']}" if told["set_by"] else ""
    return f"version {told['version']}, set {told['set_at']}{by}"


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[-1].no_wrap = True
    for column in table.columns[1:-1]:
        # Addresses and commits are there to be copied: nothing is cut off.
        column.overflow = "fold"
    return table


def _called(told: dict[str, Any]) -> str:
    """Where it goes; the environment may be gone."""
    return f"{told['project']}/{told['environment'] or '(removed)'}"


def _what(deployment: dict[str, Any]) -> str:
    """The branch, tag or commit that was asked for, and the commit where it is known."""
    ref, revision = deployment["ref"] or "", deployment["revision"] or ""
    short = ref[:12] if _COMMIT.fullmatch(ref) else ref
    parts = [short, "" if revision == ref else revision[:12]]
    return " ".join(part for part in parts if part) or "the branch that is set"


def _names(change: dict[str, Any]) -> Text:
    """What would be added, changed and removed; never a value."""
    if change["names"] is None:
        return Text(f"{change['count']}, names not known", style="dim")
    told = [
        cell(f"{kind} {', '.join(names)}", style, most=400)
        for kind, style, names in (
            ("added", "green", change["names"]["added"]),
            ("changed", "yellow", change["names"]["changed"]),
            ("removed", "red", change["names"]["removed"]),
        )
        if names
    ]
    return Text("\n").join(told) if told else Text("the same as now", style="dim")
