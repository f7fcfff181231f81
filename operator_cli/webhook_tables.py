"""Prints deliveries of webhooks, and the pushes that wait. What Git hosts have signed is still written by anybody."""

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from git_hosts.all_hosts import HOSTS
from operator_cli.durations import show_ago
from operator_cli.facts import print_facts
from operator_cli.plain_text import cell, plain
from operator_cli.typed_commands import typed_commands

_LONGEST_LINE = 10_000
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
    """Each with what it was answered and why, newest first."""
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
            show_ago(delivery["received_at"]),
            Text("\n").join([cell(_of(delivery)), cell(event, "dim", most=100)]),
            Text("\n").join(_answer(delivery)),
        )
    Console().print(table)


def show_delivery(delivery: dict[str, Any]) -> None:
    """All of one: what it was answered, its headers, its body."""
    answer = " ".join(line.plain for line in _answer(delivery))
    repository = delivery["repository"]
    print_facts(
        f"Delivery {delivery['id']}",
        {
            "received": delivery["received_at"],
            "of": _of(delivery),
            "repository": "-" if repository is None else f"{repository['id']}, {repository['url']}",
            "event": f"{delivery['kind']} {delivery['event']}",
            "repository ID": _repository_id(delivery["kind"], delivery["body"]),
            "delivery ID": delivery["delivery"],
            "answer": f"{delivery['http_status']} {answer}",
        },
        most=_LONGEST_LINE,
    )
    print()
    if delivery["body"] is None and not delivery["headers"]:
        print("Its body is not kept any more: it gave way to newer ones of the webhook.")
        return
    for name, values in delivery["headers"].items():
        print(plain(f"{name}: {', '.join(values)}", most=_LONGEST_LINE))
    print()
    for line in _lines(delivery["body"]):
        print(plain(line, most=_LONGEST_LINE))


def show_waiting(waiting: list[dict[str, Any]]) -> None:
    """Each with where it goes, the oldest first."""
    if not waiting:
        print("No push waits.")
        return
    table = Table("Environment", "Branch", "Commit", "Trigger", "Since", box=None, pad_edge=False)
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    table.columns[4].no_wrap = True
    for push in waiting:
        table.add_row(
            cell(f"{push['project']}/{push['environment']}"),
            cell(push["branch"]),
            cell((push["revision"] or "-")[:12]),
            push["trigger"].replace("_", " "),
            show_ago(push["since"]),
        )
    Console().print(table)


def _of(delivery: dict[str, Any]) -> str:
    if delivery["repository"] is None:
        return "the Git host's application"
    return delivery["project"] or "-"


def _answer(delivery: dict[str, Any]) -> Iterator[Text]:
    """The status in its colour, and what there is to know of it."""
    is_refused = delivery["http_status"] >= 400
    colour = "bold red" if is_refused else _COLOURS.get(delivery["status"], "dim")
    yield cell(delivery["status"].replace("_", " "), colour)
    if delivery["deployment_id"] is not None:
        yield Text(f"deployment {delivery['deployment_id']}")
    if delivery["reason"] is not None:
        yield cell(typed_commands(delivery["reason"]), "dim")
    if delivery["replay_of"] is not None:
        yield Text(f"replay of {delivery['replay_of']}", style="dim")


def _repository_id(kind: str, body: Any) -> str:
    """Return the host's ID of the payload's repository; `-` if the payload has none."""
    name, key = HOSTS[kind].repository_id_path
    repository = body.get(name) if isinstance(body, dict) else None
    found = repository.get(key) if isinstance(repository, dict) else None
    return "-" if found is None else str(found)


def _lines(body: Any) -> list[str]:
    """JSON as people read it; another text as it came."""
    if isinstance(body, str):
        return body.splitlines()
    return json.dumps(body, indent=2, ensure_ascii=False).splitlines()
