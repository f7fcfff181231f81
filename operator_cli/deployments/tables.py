"""Print deployments and pending approvals as tables."""

import re
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell

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
    """Print one line for each deployment, newest first."""
    if not deployments:
        print(qualify_commands("No deployments yet. `pharos deploy` asks for one."))
        return
    table = _make_table("ID", "Status", "Environment", "Trigger", "What", "Asked by", "When")
    for deployment in deployments:
        status = deployment["status"]
        table.add_row(
            str(deployment["id"]),
            Text(status.replace("_", " "), style=_COLOURS.get(status, "")),
            make_cell(_format_target(deployment)),
            deployment["trigger"],
            make_cell(_describe_ref(deployment), max_length=60),
            make_cell(deployment["asked_by"] or "-"),
            format_age(deployment["created_at"]),
        )
    Console().print(table)


def show_approvals(deployments: list[dict[str, Any]], changes: list[dict[str, Any]]) -> None:
    """Print the deployments and changes of variables that wait for a second person."""
    if not deployments and not changes:
        print("Nothing waits for approval.")
        return
    console = Console()
    if deployments:
        table = _make_table("Deployment", "Environment", "Trigger", "What", "Asked by", "When")
        for deployment in deployments:
            table.add_row(
                str(deployment["id"]),
                make_cell(_format_target(deployment)),
                deployment["trigger"],
                make_cell(_describe_ref(deployment), max_length=60),
                make_cell(deployment["asked_by"] or "-"),
                format_age(deployment["created_at"]),
            )
        console.print(table)
        for deployment in deployments:
            console.print(f"\nDeployment {deployment['id']} would run")
            for name, value in list_approval_inputs(deployment):
                console.print(Text(f"  {name}: ").append(make_cell(value, max_length=300)), soft_wrap=True)
    if deployments and changes:
        console.print()
    if changes:
        table = _make_table("Variables", "Environment", "Names", "Asked by", "When")
        for change in changes:
            table.add_row(
                str(change["id"]),
                make_cell(_format_target(change)),
                _format_names(change),
                make_cell(change["asked_by"] or "-"),
                format_age(change["created_at"]),
            )
        console.print(table)
    for warning in dict.fromkeys(change["warning"] for change in changes if "warning" in change):
        print(warning)


def list_approval_inputs(deployment: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of each input that an approval of the deployment is bound to."""
    inputs = [("repository", deployment["repository_url"]), ("commit", _describe_commit(deployment))]
    inputs.append(("variables", _describe_version(deployment["variables"], "none")))
    inputs.append(("workflow", _describe_workflow(deployment["workflow"], deployment["project"])))
    if deployment["digest"] is not None:
        inputs.append(("digest", deployment["digest"]))
    if deployment["changed_since_asked"] is not None:
        changed = f"{deployment['changed_since_asked']}: approve it with --digest"
        inputs.append(("changed since it was asked for", changed))
    return inputs


def _describe_commit(deployment: dict[str, Any]) -> str:
    fault, subject = deployment["commit_fault"], deployment["commit_subject"]
    if deployment["revision"] is None:
        return "not known yet" if fault is None else f"not known: {fault}"
    if subject is not None:
        return f"{deployment['revision']} {subject!r} by {deployment['commit_author']}"
    return str(deployment["revision"]) if fault is None else f"{deployment['revision']} ({fault})"


def _describe_workflow(workflow: dict[str, Any] | None, project: str) -> str:
    """Return the version of the workflow, the beginning of its hash, and the command that prints its text."""
    if workflow is None:
        return "pharos.yaml of the commit"
    text = "text not kept" if workflow["sha256"] is None else f"SHA-256 {workflow['sha256'][:16]}"
    if workflow["release_of"] is not None:
        advice = qualify_commands("`pharos approvals --json` has its text")
        return f"that of the release of deployment {workflow['release_of']}, {text}; {advice}"
    advice = qualify_commands(f"`pharos workflow show --project {project}` prints it")
    return f"{_describe_version(workflow, '')}, {text}; {advice}"


def _describe_version(versioned: dict[str, Any] | None, none: str) -> str:
    if versioned is None:
        return none
    by = f" by {versioned['set_by']}" if versioned["set_by"] else ""
    return f"version {versioned['version']}, set {versioned['set_at']}{by}"


def _make_table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[-1].no_wrap = True
    for column in table.columns[1:-1]:
        # Addresses and commits get copied, so they wrap instead of being cut.
        column.overflow = "fold"
    return table


def _format_target(document: dict[str, Any]) -> str:
    """Return `PROJECT/ENVIRONMENT` of a deployment or change; the environment may have been removed."""
    return f"{document['project']}/{document['environment'] or '(removed)'}"


def _describe_ref(deployment: dict[str, Any]) -> str:
    """Return the requested branch, tag or commit, and the resolved commit if it is known."""
    ref, revision = deployment["ref"] or "", deployment["revision"] or ""
    short = ref[:12] if _COMMIT.fullmatch(ref) else ref
    parts = [short, "" if revision == ref else revision[:12]]
    return " ".join(part for part in parts if part) or "the branch that is set"


def _format_names(change: dict[str, Any]) -> Text:
    """Return the names that the change adds, changes and removes, without values."""
    if change["names"] is None:
        return Text(f"{change['count']}, names not known", style="dim")
    lines = [
        make_cell(f"{kind} {', '.join(names)}", style, max_length=400)
        for kind, style, names in (
            ("added", "green", change["names"]["added"]),
            ("changed", "yellow", change["names"]["changed"]),
            ("removed", "red", change["names"]["removed"]),
        )
        if names
    ]
    return Text("\n").join(lines) if lines else Text("the same as now", style="dim")
