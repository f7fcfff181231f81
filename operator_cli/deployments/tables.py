"""Print deployments and pending approvals as tables."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_COLOURS: Final = {
    "queued": "cyan",
    "deploying": "cyan",
    "running": "cyan",
    "awaiting_approval": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "rejected": "red",
    "canceled": "dim",
}


def show_deployments(arguments: argparse.Namespace, deployments: Sequence[dict[str, Any]]) -> None:
    """Print one line for each deployment, newest first."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Status", wraps=False),
            Column("Environment", wraps=False),
            Column("What"),
            Column("When", wraps=False),
            Column("Asked by", is_optional=True),
            Column("Trigger", wraps=False, is_optional=True),
        ],
        [
            (
                each["id"],
                _format_status(each["status"]),
                _format_target(each),
                make_cell(_describe_ref(each), max_length=60),
                format_age(each["created_at"]),
                _format_person(each["asked_by"]),
                each["trigger"],
            )
            for each in deployments
        ],
        empty="No deployments yet. `pharos deploy` starts one.",
    )


def show_approvals(arguments: argparse.Namespace, waiting: Sequence[dict[str, Any]]) -> None:
    """Print the deployments and changes of variables that wait for a second person."""
    if not waiting:
        print("Nothing waits for approval.")
        return
    deployments = [each["deployment"] for each in waiting if each["deployment"] is not None]
    changes = [each["variable_change"] for each in waiting if each["variable_change"] is not None]
    if deployments:
        _show_waiting_deployments(arguments, deployments)
    if deployments and changes:
        print()
    if changes:
        _show_waiting_changes(arguments, changes)
    kinds = ["deployment ID"] * bool(deployments) + ["variables ID"] * bool(changes)
    if any(each["can_decide"] for each in waiting):
        hint = " and ".join(f"`pharos approve {kind}`" for kind in kinds)
        print(qualify_commands(f"\n{hint} {'approves' if len(kinds) == 1 else 'approve'}, `reject` rejects."))
    else:
        print(
            "\nYou may not decide any of these: you made the request, or are not a maintainer of the project."
        )


def _show_waiting_deployments(arguments: argparse.Namespace, waiting: Sequence[dict[str, Any]]) -> None:
    deployments = [each["deployment"] for each in waiting]
    print_table(
        arguments,
        [
            Column("Deployment", is_number=True),
            Column("Environment", wraps=False),
            Column("What"),
            Column("When", wraps=False),
            Column("Asked by", is_optional=True),
            Column("Trigger", wraps=False, is_optional=True),
        ],
        [
            (
                each["id"],
                _format_target(each),
                make_cell(_describe_ref(each), max_length=60),
                format_age(each["created_at"]),
                _format_person(each["asked_by"]),
                each["trigger"],
            )
            for each in deployments
        ],
        empty="",
    )
    console = Console(highlight=False, soft_wrap=True)
    for each in waiting:
        console.print(f"\nDeployment {each['deployment']['id']} would run")
        for name, value in list_approval_inputs(each):
            console.print(Text(f"  {name}: " if name else "    ").append(make_cell(value, max_length=300)))


def _show_waiting_changes(arguments: argparse.Namespace, changes: Sequence[dict[str, Any]]) -> None:
    print_table(
        arguments,
        [
            Column("Variables", is_number=True),
            Column("Environment"),
            Column("Names"),
            Column("Asked by"),
            Column("When", wraps=False),
        ],
        [
            (
                each["id"],
                _format_target(each),
                _format_names(each),
                _format_person(each["asked_by"]),
                format_age(each["created_at"]),
            )
            for each in changes
        ],
        empty="",
    )


def list_approval_inputs(waiting: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of each input that an approval of the deployment is bound to."""
    deployment = waiting["deployment"]
    inputs = [
        ("repository", waiting["repository_url"]),
        ("commit", _describe_commit(deployment, waiting["commit_fault"])),
        *_list_new_commits(waiting["new_commits"]),
        ("variables", _describe_version(waiting["variables"], "none")),
        ("workflow", _describe_workflow(waiting["workflow"], deployment["project"]["slug"])),
    ]
    if waiting["digest"] is not None:
        inputs.append(("digest", waiting["digest"]))
    if waiting["needs_digest"]:
        changed = waiting["changed_since_asked"]
        names = "not known" if changed is None else " and ".join(changed)
        inputs.append(("changed since the request", f"{names}: approve it with --digest"))
    return inputs


def _describe_commit(deployment: dict[str, Any], fault: str | None) -> str:
    revision, subject = deployment["revision"], deployment["commit_subject"]
    if revision is None:
        return "not known yet: approve it with --revision" if fault is None else f"not known: {fault}"
    if subject is not None:
        return f"{revision} {subject!r} by {deployment['commit_author']}"
    return str(revision) if fault is None else f"{revision} ({fault})"


def _list_new_commits(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the number of commits that would go live or be lost, and the newest ones."""
    if found is None:
        return []
    since = found["since"][:12]
    if found["fault"] is not None:
        return [("commits", f"not compared with {since}, which is live: {found['fault']}")]
    counts = f"{found['added']} new since {since}, which is live"
    if found["missing"]:
        counts += f"; {found['missing']} live ones would be lost"
    newest = [("", f"{each['revision'][:12]} {each['subject']}") for each in found["newest"]]
    return [("commits", counts), *newest]


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
    by = f" by {versioned['set_by']['email']}" if versioned["set_by"] else ""
    return f"version {versioned['version']}, set {versioned['set_at']}{by}"


def _format_status(status: str) -> Text:
    text = "waiting" if status == "awaiting_approval" else status
    return Text(text, style=_COLOURS.get(status, ""))


def _format_target(document: dict[str, Any]) -> str:
    """Return `PROJECT/ENVIRONMENT` of a deployment or change; the environment may have been removed."""
    environment = document["environment"]
    return f"{document['project']['slug']}/{environment['slug'] if environment else '(removed)'}"


def _format_person(person: dict[str, Any] | None) -> str | None:
    return None if person is None else str(person["email"])


def _describe_ref(deployment: dict[str, Any]) -> str:
    """Return the release or the requested branch, tag or commit, and the resolved commit if it is known."""
    ref, revision = deployment["ref"] or "", deployment["revision"] or ""
    if deployment["rolled_back_to_build_id"] is not None:
        ref = f"rollback to {deployment['rolled_back_to_build_id']}"
    elif deployment["promoted_from_build_id"] is not None:
        ref = f"promoted from {deployment['promoted_from_build_id']}"
    short = ref[:12] if _COMMIT.fullmatch(ref) else ref
    parts = [short, "" if revision == ref else revision[:12]]
    environment = deployment["environment"]
    of = environment["slug"] if environment else "the project"
    return " ".join(part for part in parts if part) or f"branch of {of}"


def _format_names(change: dict[str, Any]) -> Text:
    """Return the names that the change adds, changes, removes and unprotects, without values."""
    names = change["names"]
    if names is None:
        return Text("names not known: they cannot be opened", style="dim")
    styles = {"added": "green", "changed": "yellow", "removed": "red", "unprotected": "red"}
    lines = [
        make_cell(f"{kind} {', '.join(names[kind])}", style, max_length=400)
        for kind, style in styles.items()
        if names[kind]
    ]
    return Text("\n").join(lines) if lines else Text("the same as now", style="dim")
