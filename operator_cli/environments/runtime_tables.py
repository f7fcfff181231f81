"""Print running environments and previews as tables."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell, sanitize

_COLOURS = {"starting": "cyan", "running": "green", "waiting": "yellow", "draining": "dim"}


def show_runtime(environments: list[dict[str, Any]]) -> None:
    """Print environments with their release, deployer and processes."""
    if not environments:
        print(qualify_commands("Nothing runs. `pharos deploy` brings something to an environment."))
        return
    console = Console(highlight=False)
    for number, environment in enumerate(environments):
        if number:
            console.print()
        _show_environment(console, environment)


def show_previews(previews: list[dict[str, Any]]) -> None:
    """Print two lines for each preview: addresses get copied, and a table would cut them."""
    if not previews:
        print(qualify_commands("No previews. `pharos preview open BRANCH` opens one."))
        return
    console = Console(highlight=False, soft_wrap=True)
    for preview in previews:
        live = preview["live"]
        line = Text(sanitize(f"{preview['project']['slug']}/{preview['slug']}"), style="bold")
        line.append(f"  branch {sanitize(preview['branch'] or '-')}, ", style="not bold")
        line.append_text(_state(preview))
        line.append(
            ", nothing is live yet" if live is None else f", live: {_release(live)}", style="not bold"
        )
        console.print(line)
        console.print(Text(f"  {sanitize(preview['address'] or 'no address yet')}"))


def _show_environment(console: Console, environment: dict[str, Any]) -> None:
    environment_path = f"{environment['project']['slug']}/{environment['slug']}"
    head = Text(sanitize(environment_path), style="bold")
    if environment["address"]:
        head.append(f"  {sanitize(environment['address'])}", style="not bold")
    console.print(head, soft_wrap=True)
    for label, value in _facts(environment).items():
        console.print(Text("  ").append(f"{label:<10}").append_text(value), soft_wrap=True)
    if environment["instances"]:
        console.print(Padding(_make_process_table(environment["instances"]), (0, 0, 0, 2)))


def _facts(environment: dict[str, Any]) -> dict[str, Text]:
    live, deployer = environment["live"], environment["deployer"]
    facts = {
        "release": Text("nothing is live yet") if live is None else _release(live),
        "state": _state(environment),
        "running": Text(_running(environment)),
    }
    if live is not None and live["held"]:
        held = f"rolled back: no push deploys here until `pharos environment resume {environment['id']}`"
        facts["held"] = Text(qualify_commands(held), style="yellow")
    if deployer is not None:
        facts["deployer"] = _deployer(deployer)
    return facts


def _release(live: dict[str, Any]) -> Text:
    return Text(
        f"deployment {live['deployment_id']}, {live['revision'][:12]}, since {format_age(live['since'])}"
    )


def _state(environment: dict[str, Any]) -> Text:
    """Return the desired state, and the deployment that is in progress."""
    text = Text(environment["state"], style="" if environment["state"] == "running" else "yellow")
    active = environment["active_deployment"]
    if active is not None:
        step = (active["step"] or active["status"]).replace("_", " ")
        text.append(", ").append(f"deploying {active['id']}: {step}", style="cyan")
    return text


def _running(environment: dict[str, Any]) -> str:
    desired, running = environment["wanted"], environment["running"]
    if desired is None:
        return f"{running} processes"
    return f"{running} of {desired} process{'' if desired == 1 else 'es'}"


def _deployer(deployer: dict[str, Any]) -> Text:
    name = sanitize(deployer["name"])
    if not deployer["answers"]:
        silent = format_age(deployer["until"]).removesuffix(" ago")
        return Text(f"{name} has not responded for {silent}: this may be out of date", style="bold red")
    activity = f", {sanitize(deployer['doing'])}" if deployer["doing"] else ""
    return Text(f"{name}{activity}")


def _make_process_table(instances: list[dict[str, Any]]) -> Table:
    table = Table("Process", "State", "PID", "Port", "Up", "Restarts", "Last exit", box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    for instance in instances:
        started_at = instance["started_at"]
        table.add_row(
            make_cell(f"{instance['process']}.{instance['number']}"),
            make_cell(instance["state"], _COLOURS.get(instance["state"], "")),
            _format_number(instance["pid"]),
            _format_number(instance["port"]),
            "-" if started_at is None else format_age(started_at).removesuffix(" ago"),
            str(instance["restarts"]),
            make_cell(instance["last_exit"] or "-", max_length=120),
        )
    return table


def _format_number(number: int | None) -> str:
    return "-" if number is None else str(number)
