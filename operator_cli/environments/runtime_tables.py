"""Print running environments and previews."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, sanitize

Row = Mapping[str, Any]

_COLOURS = {"starting": "cyan", "running": "green", "waiting": "yellow", "draining": "dim"}


def show_runtime(arguments: argparse.Namespace, environments: Sequence[tuple[str, Row]]) -> None:
    """Print environments with their release, deployer and processes. Each has its name and its document."""
    if not environments:
        print(qualify_commands("Nothing runs. `pharos deploy` deploys to an environment."))
        return
    console = Console(highlight=False, soft_wrap=True)
    for number, (path, document) in enumerate(environments):
        if number:
            console.print()
        head = Text(sanitize(path), style="bold")
        if document["address"]:
            head.append(f"  {sanitize(document['address'])}", style="not bold")
        console.print(head)
        for label, value in _facts(path, document).items():
            console.print(Text("  ").append(f"{label:<10}").append_text(value))
        if document["instances"]:
            _show_processes(arguments, document["instances"])


def show_previews(previews: Sequence[Row]) -> None:
    """Print some lines for each preview, because people copy addresses and a table would cut them."""
    if not previews:
        print(qualify_commands("No previews. `pharos preview open BRANCH` opens one."))
        return
    console = Console(highlight=False, soft_wrap=True)
    for preview in previews:
        live = preview["live"]
        head = Text(sanitize(f"{preview['project']['slug']}/{preview['slug']}"), style="bold")
        console.print(head.append(f"  branch {sanitize(preview['branch'] or '-')}", style="not bold"))
        state = _state(preview)
        if preview["closing"]:
            state.append(", closes after its deployment", style="yellow")
        facts = {
            "address": Text(sanitize(preview["address"] or "none yet")),
            "release": Text("nothing is live yet") if live is None else _release(live),
            "state": state,
        }
        for label, value in facts.items():
            console.print(Text("  ").append(f"{label:<10}").append_text(value))


def _facts(path: str, environment: Row) -> dict[str, Text]:
    live, deployer = environment["live"], environment["deployer"]
    facts = {
        "release": Text("nothing is live yet") if live is None else _release(live),
        "state": _state(environment),
        "running": Text(_running(environment)),
    }
    if live is not None and live["held"]:
        held = f"rolled back: no push deploys here until `pharos environment resume {path}`"
        facts["held"] = Text(sanitize(qualify_commands(held)), style="yellow")
    if deployer is not None:
        facts["deployer"] = _deployer(deployer)
    return facts


def _release(live: Row) -> Text:
    return Text(
        f"deployment {live['deployment_id']}, {live['revision'][:12]}, since {format_age(live['since'])}"
    )


def _state(environment: Row) -> Text:
    """Return the desired state, and the deployment that is in progress."""
    text = Text(environment["state"], style="" if environment["state"] == "running" else "yellow")
    active = environment["active_deployment"]
    if active is not None:
        step = (active.get("step") or active["status"]).replace("_", " ")
        text.append(", ").append(f"deploying {active['id']}: {step}", style="cyan")
    return text


def _running(environment: Row) -> str:
    desired, running = environment["desired"], environment["running"]
    if desired is None:
        return f"{running} processes"
    return f"{running} of {desired} process{'' if desired == 1 else 'es'}"


def _deployer(deployer: Row) -> Text:
    name = sanitize(deployer["host"])
    if not deployer["responds"]:
        silent = format_age(deployer["leased_until"]).removesuffix(" ago")
        return Text(f"{name} has not responded for {silent}: this may be out of date", style="bold red")
    activity = f", {sanitize(deployer['doing'])}" if deployer["doing"] else ""
    return Text(f"{name}{activity}")


def _show_processes(arguments: argparse.Namespace, instances: Sequence[Row]) -> None:
    print_table(
        arguments,
        [
            Column("Process", wraps=False),
            Column("State", wraps=False),
            Column("PID", is_number=True, is_optional=True),
            Column("Port", is_number=True, is_optional=True),
            Column("Up", wraps=False),
            Column("Restarts", is_number=True),
            Column("Last exit"),
        ],
        [
            (
                f"{instance['process']}.{instance['number']}",
                make_cell(instance["state"], _COLOURS.get(instance["state"], "")),
                instance["pid"],
                instance["port"],
                None
                if instance["started_at"] is None
                else format_age(instance["started_at"]).removesuffix(" ago"),
                instance["restarts"],
                instance["last_exit"],
            )
            for instance in instances
        ],
        empty="",
    )
