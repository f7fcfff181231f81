"""Print repositories, webhook deliveries and waiting pushes as tables."""

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from git_hosts.all_hosts import HOSTS
from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell, print_facts, sanitize


def show_repositories(repositories: list[dict[str, Any]]) -> None:
    """Print repositories with their projects and whether their webhooks are processed."""
    if not repositories:
        print(qualify_commands("No repositories yet. `pharos repository connect URL` connects one."))
        return
    table = Table("ID", "Project", "Kind", "Branch", "Webhooks", "Address", box=None, pad_edge=False)
    table.columns[5].overflow = "fold"
    for repository in repositories:
        table.add_row(
            str(repository["id"]),
            make_cell(repository["project"]["slug"]),
            repository["kind"],
            make_cell(repository["branch"], max_length=60),
            _webhooks(repository),
            _address(repository),
        )
    Console().print(table)


def _webhooks(repository: dict[str, Any]) -> Text:
    if repository["kind"] == "git":
        return Text("-")
    if not repository["push_deploys"]:
        return Text("off", style="yellow")
    if repository["secret_kind"] is None:
        return Text("no secret", style="yellow")
    return Text("on, forks", style="yellow") if repository["forks"] else Text("on", style="green")


def _address(repository: dict[str, Any]) -> Text:
    address = make_cell(repository["url"])
    return Text.assemble(address, (" (sample)", "dim")) if repository["sample"] else address


_MAX_LINE_LENGTH = 10_000
_COLOURS = {
    "queued": "green",
    "preview_queued": "green",
    "preview_updated": "green",
    "preview_closed": "green",
    "handled": "green",
    "pong": "green",
    "waiting": "yellow",
}


def show_deliveries(deliveries: list[dict[str, Any]]) -> None:
    """Print webhook deliveries with the response and its reason, newest first."""
    if not deliveries:
        print("No deliveries in the last 7 days.")
        return
    table = Table("ID", "When", "Project, event", "Answer", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    table.columns[2].overflow = table.columns[3].overflow = "fold"
    for delivery in deliveries:
        event = f"{delivery['kind']} {delivery['event']}"
        table.add_row(
            str(delivery["id"]),
            format_age(delivery["received_at"]),
            Text("\n").join([make_cell(_name_source(delivery)), make_cell(event, "dim", max_length=100)]),
            Text("\n").join(_describe_response(delivery)),
        )
    Console().print(table)


def show_delivery(delivery: dict[str, Any]) -> None:
    """Print one delivery with the response, the headers and the body."""
    response = " ".join(line.plain for line in _describe_response(delivery))
    repository = delivery["repository"]
    print_facts(
        f"Delivery {delivery['id']}",
        {
            "received": delivery["received_at"],
            "of": _name_source(delivery),
            "repository": "-" if repository is None else f"{repository['id']}, {repository['url']}",
            "event": f"{delivery['kind']} {delivery['event']}",
            "repository ID": _find_repository_id(delivery["kind"], delivery["body"]),
            "delivery ID": delivery["delivery"],
            "answer": f"{delivery['http_status']} {response}",
        },
        max_length=_MAX_LINE_LENGTH,
    )
    print()
    if delivery["body"] is None and not delivery["headers"]:
        print("Its body was deleted to make room for newer deliveries of the webhook.")
        return
    for name, values in delivery["headers"].items():
        print(sanitize(f"{name}: {', '.join(values)}", max_length=_MAX_LINE_LENGTH))
    print()
    for line in _format_body(delivery["body"]):
        print(sanitize(line, max_length=_MAX_LINE_LENGTH))


def show_waiting_pushes(waiting: list[dict[str, Any]]) -> None:
    """Print waiting pushes with their environments, oldest first."""
    if not waiting:
        print("No push waits.")
        return
    table = Table("Environment", "Branch", "Commit", "Trigger", "Since", box=None, pad_edge=False)
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    table.columns[4].no_wrap = True
    for push in waiting:
        table.add_row(
            make_cell(f"{push['project']}/{push['environment']}"),
            make_cell(push["branch"]),
            make_cell((push["revision"] or "-")[:12]),
            push["trigger"].replace("_", " "),
            format_age(push["since"]),
        )
    Console().print(table)


def _name_source(delivery: dict[str, Any]) -> str:
    if delivery["repository"] is None:
        return "the Git host's application"
    return delivery["project"] or "-"


def _describe_response(delivery: dict[str, Any]) -> Iterator[Text]:
    """Yield the coloured status, then the deployment, the reason and the replayed delivery if there are any."""
    is_refused = delivery["http_status"] >= 400
    colour = "bold red" if is_refused else _COLOURS.get(delivery["status"], "dim")
    yield make_cell(delivery["status"].replace("_", " "), colour)
    if delivery["deployment_id"] is not None:
        yield Text(f"deployment {delivery['deployment_id']}")
    if delivery["reason"] is not None:
        yield make_cell(qualify_commands(delivery["reason"]), "dim")
    if delivery["replay_of"] is not None:
        yield Text(f"replay of {delivery['replay_of']}", style="dim")


def _find_repository_id(kind: str, body: Any) -> str:
    """Return the host's ID of the payload's repository; `-` if the payload has none."""
    host = HOSTS.get(kind)
    name, key = ("repository", "id") if host is None else host.repository_id_path
    repository = body.get(name) if isinstance(body, dict) else None
    found = repository.get(key) if isinstance(repository, dict) else None
    return "-" if found is None else str(found)


def _format_body(body: Any) -> list[str]:
    """Return the lines of the body: indented JSON, or other text unchanged."""
    if isinstance(body, str):
        return body.splitlines()
    return json.dumps(body, indent=2, ensure_ascii=False).splitlines()
