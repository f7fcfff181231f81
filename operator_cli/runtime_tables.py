"""Prints what runs as tables."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from operator_cli.durations import show_ago
from operator_cli.plain_text import cell, plain
from operator_cli.typed_commands import typed_commands

_COLOURS = {"starting": "cyan", "running": "green", "waiting": "yellow", "draining": "dim"}


def show_runtime(environments: list[dict[str, Any]]) -> None:
    """Each with its release, its deployer and its processes."""
    if not environments:
        print(typed_commands("Nothing runs. `pharos deploy` brings something to an environment."))
        return
    console = Console(highlight=False)
    for number, environment in enumerate(environments):
        if number:
            console.print()
        _show_environment(console, environment)


def show_previews(previews: list[dict[str, Any]]) -> None:
    """Two lines each: an address is there to be copied, and a table would cut it."""
    if not previews:
        print(typed_commands("No previews. `pharos preview open BRANCH` opens one."))
        return
    console = Console(highlight=False, soft_wrap=True)
    for preview in previews:
        live = preview["live"]
        told = Text(plain(f"{preview['project']['slug']}/{preview['slug']}"), style="bold")
        told.append(f"  branch {plain(preview['branch'] or '-')}, ", style="not bold")
        told.append_text(_state(preview))
        told.append(
            ", nothing is live yet" if live is None else f", live: {_release(live)}", style="not bold"
        )
        console.print(told)
        console.print(Text(f"  {plain(preview['address'] or 'no address yet')}"))


def _show_environment(console: Console, environment: dict[str, Any]) -> None:
    called = f"{environment['project']['slug']}/{environment['slug']}"
    head = Text(plain(called), style="bold")
    if environment["address"]:
        head.append(f"  {plain(environment['address'])}", style="not bold")
    console.print(head, soft_wrap=True)
    for label, value in _facts(environment).items():
        console.print(Text("  ").append(f"{label:<10}").append_text(value), soft_wrap=True)
    if environment["instances"]:
        console.print(Padding(_processes(environment["instances"]), (0, 0, 0, 2)))


def _facts(environment: dict[str, Any]) -> dict[str, Text]:
    live, deployer = environment["live"], environment["deployer"]
    facts = {
        "release": Text("nothing is live yet") if live is None else _release(live),
        "state": _state(environment),
        "running": Text(_running(environment)),
    }
    if live is not None and live["held"]:
        held = f"rolled back: no push deploys here until `pharos environment resume {environment['id']}`"
        facts["held"] = Text(typed_commands(held), style="yellow")
    if deployer is not None:
        facts["deployer"] = _deployer(deployer)
    return facts


def _release(live: dict[str, Any]) -> Text:
    return Text(
        f"deployment {live['deployment_id']}, {live['revision'][:12]}, since {show_ago(live['since'])}"
    )


def _state(environment: dict[str, Any]) -> Text:
    """What is wanted of it, and what is being brought there."""
    told = Text(environment["state"], style="" if environment["state"] == "running" else "yellow")
    active = environment["active_deployment"]
    if active is not None:
        doing = (active["step"] or active["status"]).replace("_", " ")
        told.append(", ").append(f"deploying {active['id']}: {doing}", style="cyan")
    return told


def _running(environment: dict[str, Any]) -> str:
    wanted, running = environment["wanted"], environment["running"]
    if wanted is None:
        return f"{running} processes"
    return f"{running} of {wanted} process{'' if wanted == 1 else 'es'}"


def _deployer(deployer: dict[str, Any]) -> Text:
    name = plain(deployer["name"])
    if not deployer["answers"]:
        silent = show_ago(deployer["until"]).removesuffix(" ago")
        return Text(f"{name} has not answered for {silent}: what it told last may be over", style="bold red")
    doing = f", {plain(deployer['doing'])}" if deployer["doing"] else ""
    return Text(f"{name}{doing}")


def _processes(instances: list[dict[str, Any]]) -> Table:
    table = Table("Process", "State", "PID", "Port", "Up", "Restarts", "Last exit", box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    for one in instances:
        table.add_row(
            cell(f"{one['process']}.{one['number']}"),
            cell(one["state"], _COLOURS.get(one["state"], "")),
            _number(one["pid"]),
            _number(one["port"]),
            "-" if one["started_at"] is None else show_ago(one["started_at"]).removesuffix(" ago"),
            str(one["restarts"]),
            cell(one["last_exit"] or "-", most=120),
        )
    return table


def _number(given: int | None) -> str:
    return "-" if given is None else str(given)
