"""Print environments as tables."""

import argparse
from typing import Any

from rich.text import Text

from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, print_facts, sanitize


def show_environments(arguments: argparse.Namespace, environments: list[dict[str, Any]]) -> None:
    """Print environments with their desired state and whether they accept deployments."""
    print_table(
        arguments,
        [
            Column("Environment", wraps=False),
            Column("Type", wraps=False),
            Column("Order", is_number=True),
            Column("Runs", wraps=False),
            Column("Deploys"),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (
                f"{each['project']['slug']}/{each['slug']}",
                each["type"],
                each["order"],
                _desired_state(each),
                _deploys(each),
                each["id"],
            )
            for each in environments
        ],
        empty="No environments yet. `pharos environment create NAME --type staging` makes one.",
    )


def _desired_state(environment: dict[str, Any]) -> Text:
    if environment["state"] != "running":
        return Text(environment["state"], style="yellow")
    return Text(_replicas(environment))


def _replicas(environment: dict[str, Any]) -> str:
    count = environment["desired_replicas"]
    return f"{count} replica{'' if count == 1 else 's'}"


def _deploys(environment: dict[str, Any]) -> Text:
    """Return the lock, or when the environment accepts deployments."""
    if environment["lock"] is not None:
        return make_cell(describe_lock(environment["lock"]), "bold red", max_length=120)
    conditions = [environment["window"] or "any time"]
    if environment["approval"]["deploys"]:
        conditions.append("after approval")
    return Text(", ".join(conditions))


def describe_lock(lock: dict[str, Any]) -> str:
    """Return who locked an environment, and why: `locked by ada@example.com: sale`."""
    by = lock["by"]["email"] if lock["by"] else "an operator"
    return sanitize(f"locked by {by}: {lock['reason']}", max_length=1000)


def show_environment(environment: dict[str, Any]) -> None:
    """Print the settings of one environment, its lock, its release and its pending deployments."""
    path = f"{environment['project']['slug']}/{environment['slug']}"
    lock, active = environment["lock"], environment["active_deployment"]
    facts = {
        "ID": f"{environment['id']} (number {environment['number']})",
        "path": path,
        "type": f"{environment['type']}, order {environment['order']}",
        "state": f"{environment['state']}, {_replicas(environment)} desired",
        "wakes": "at the first request"
        if environment["wake_on_request"]
        else f"by `pharos environment wake {path}`",
        "branch": environment["branch"] or "the repository's",
        "window": environment["window"] or "at any time",
        "approval": _approval(environment["approval"]),
        "lock": "none" if lock is None else f"{describe_lock(lock)} (since {lock['since']})",
        "live": _live(environment["live"]),
        **_held(path, environment["live"]),
        "variables": _variables(environment["variables"]),
        "deployment": "none is active" if active is None else f"{active['id']} is {active['status']}",
        "waiting": _waiting(environment["waiting"]),
    }
    if environment.get("gated_previews"):
        previews = ", ".join(environment["gated_previews"])
        facts["previews"] = (
            f"deploys to {previews} wait for a second person too: they have copies of its variables"
        )
    print_facts(environment["name"], facts, max_length=1000)


def _approval(approval: dict[str, bool]) -> str:
    gated = [name for name in ("deploys", "variables") if approval[name]]
    return f"{' and '.join(gated)} wait for a second person" if gated else "none needed"


def _live(live: dict[str, Any] | None) -> str:
    if live is None:
        return "nothing"
    return f"deployment {live['deployment_id']}, commit {live['revision'][:12]}, since {live['since']}"


def _held(path: str, live: dict[str, Any] | None) -> dict[str, str]:
    if live is None or not live["held"]:
        return {}
    return {"held": f"rolled back: no push deploys until `pharos environment resume {path}`"}


def _variables(variables: dict[str, Any] | None) -> str:
    return "none" if variables is None else f"{variables['count']}, version {variables['version']}"


def _waiting(waiting: dict[str, Any]) -> str:
    parts = [f"deployment {number}" for number in waiting["deployments"]]
    parts += [f"variables (change {number})" for number in waiting["variable_changes"]]
    return f"{', '.join(parts)} for `pharos approve`" if parts else "nothing"
