"""Print environments as tables."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell, print_facts


def show_environments(environments: list[dict[str, Any]]) -> None:
    """Print environments with their desired state and whether they accept deployments."""
    if not environments:
        print(
            qualify_commands(
                "No environments yet. `pharos environment create NAME --type staging` makes one."
            )
        )
        return
    table = Table("Environment, ID", "Type", "Order", "Runs", "Deploys", box=None, pad_edge=False)
    # IDs get copied, so only the last column may wrap.
    for column in table.columns[:4]:
        column.no_wrap = True
    for environment in environments:
        environment_path = f"{environment['project']['slug']}/{environment['slug']}"
        table.add_row(
            Text("\n").join([make_cell(environment_path), Text(environment["id"], style="dim")]),
            environment["type"],
            str(environment["order"]),
            _desired_state(environment),
            _deploys(environment),
        )
    Console().print(table)


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
        return make_cell(_lock(environment["lock"]), "bold red", max_length=120)
    conditions = [environment["window"] or "at any time"]
    if environment["approval"]["deploys"]:
        conditions.append("after approval")
    return Text(", ".join(conditions))


def _lock(lock: dict[str, Any]) -> str:
    return f"locked by {lock['by'] or 'an operator'}: {lock['reason']}"


def show_environment(environment: dict[str, Any]) -> None:
    """Print the settings of one environment and, if the document has them, its release and what waits."""
    project, lock = environment["project"], environment["lock"]
    facts = {
        "ID": f"{environment['id']} (number {environment['number']})",
        "path": f"{project['slug']}/{environment['slug']}",
        "type": f"{environment['type']}, order {environment['order']}",
        "state": f"{environment['state']}, {_replicas(environment)} wanted",
        "wakes": "at the first request" if environment["wake_on_request"] else "when somebody wakes it",
        "branch": environment["branch"] or "the repository's",
        "window": environment["window"] or "at any time",
        "approval": _approval(environment["approval"]),
        "lock": "none" if lock is None else f"{_lock(lock)} (since {lock['since']})",
    }
    if "live" in environment:
        facts |= {
            "live": _live(environment["live"]),
            **_held(environment),
            "variables": _variables(environment["variables"]),
            "deployment": _active(environment["active_deployment"]),
            "waiting": _waiting(environment["awaiting_approval"]),
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


def _held(environment: dict[str, Any]) -> dict[str, str]:
    if not environment["held"]:
        return {}
    environment_path = f"{environment['project']['slug']}/{environment['slug']}"
    resume = f"`pharos environment resume {environment_path}` lets them again"
    return {"held": f"rolled back: pushes do not deploy here; {resume}"}


def _variables(variables: dict[str, Any] | None) -> str:
    return "none" if variables is None else f"{variables['count']}, version {variables['version']}"


def _active(active: dict[str, Any] | None) -> str:
    return "none is active" if active is None else f"{active['id']} is {active['status']}"


def _waiting(waiting: dict[str, Any]) -> str:
    parts = [f"deployment {number}" for number in waiting["deployments"]]
    if waiting["variable_change"] is not None:
        parts.append(f"variables (change {waiting['variable_change']})")
    return f"{', '.join(parts)} for approval" if parts else "nothing"


def show_removed(result: dict[str, Any]) -> None:
    """Print what was removed with an environment."""
    counts = result["removed"]
    removed = ", ".join(
        f"{counts[name]} {name if counts[name] != 1 else name[:-1]}" for name in counts if name != "canceled"
    )
    print(f"Environment {result['slug']} is removed, with {removed}.")
    if counts["canceled"]:
        print(f"Deployments that waited for approval were canceled: {counts['canceled']}.")
    print("Its deployments are still listed; telemetry stays until its retention ends.")
