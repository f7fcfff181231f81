"""Print repositories, webhook deliveries and waiting pushes."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, print_facts, sanitize

Row = Mapping[str, Any]

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


def show_repositories(arguments: argparse.Namespace, repositories: Sequence[Row]) -> None:
    """Print repositories with their projects and whether their webhooks are processed."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Project", wraps=False),
            Column("Kind", wraps=False, is_optional=True),
            Column("Branch", wraps=False, is_optional=True),
            Column("Webhooks", wraps=False),
            # Not wrapped or cut, because people copy it.
            Column("URL", wraps=False),
        ],
        [
            (
                repository["id"],
                repository["project"]["slug"],
                repository["kind"],
                make_cell(repository["branch"], max_length=60),
                _webhooks(repository),
                # First, because a long URL is cut.
                f"(sample) {repository['url']}" if repository["sample"] else repository["url"],
            )
            for repository in repositories
        ],
        empty="No repositories yet. `pharos repository connect URL` connects one.",
    )


def show_repository(repository: Row) -> None:
    """Print one repository with all its settings."""
    print_facts(
        f"Repository {repository['id']} of the project {repository['project']['slug']}",
        {
            "URL": f"{repository['url']} (sample)" if repository["sample"] else repository["url"],
            "kind": repository["kind"],
            "branch": repository["branch"],
            "webhooks": describe_webhooks(repository),
            "host ID": repository["host_id"] or "-",
            "connected": repository["connected_at"],
            **({"disconnected": repository["disconnected_at"]} if repository["disconnected_at"] else {}),
        },
    )


def describe_webhooks(repository: Row) -> str:
    """Return in words whether deliveries of the repository's webhook are processed, and which."""
    if repository["kind"] == "git":
        return "none, because its host is not GitHub, GitLab or Bitbucket"
    if not repository["push_deploys"]:
        return "not processed"
    if repository["secret_kind"] is None:
        return f"no secret yet; `pharos repository new-secret {repository['id']}` makes one"
    forks = "also from forks" if repository["forks"] else "but not from forks"
    return f"pushes deploy, and pull requests get previews, {forks}"


def _webhooks(repository: Row) -> Text:
    if repository["kind"] == "git":
        return Text("-")
    if not repository["push_deploys"]:
        return Text("off", style="yellow")
    if repository["secret_kind"] is None:
        return Text("no secret", style="yellow")
    return Text("on, forks", style="yellow") if repository["forks"] else Text("on", style="green")


def show_deliveries(
    arguments: argparse.Namespace, deliveries: Sequence[Row], projects: Mapping[int, str]
) -> None:
    """Print webhook deliveries with the response and its reason. `projects` has the slugs by repository."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("When", wraps=False),
            Column("Project", wraps=False),
            Column("Event"),
            Column("Response"),
        ],
        [
            (
                delivery["id"],
                format_age(delivery["received_at"]),
                projects.get(delivery["repository_id"]),
                make_cell(f"{delivery['kind']} {delivery['event']}", max_length=100),
                Text("\n").join(_describe_response(delivery)),
            )
            for delivery in deliveries
        ],
        empty="No deliveries in the last 7 days. `pharos repository list` says whether webhooks are processed.",
    )


def show_delivery(delivery: Row, repository: Row) -> None:
    """Print one delivery of the repository with the response, the headers and the body."""
    response = " ".join(line.plain for line in _describe_response(delivery))
    body = None if delivery["body"] is None else _read_body(delivery["body"])
    print_facts(
        f"Delivery {delivery['id']}",
        {
            "received": delivery["received_at"],
            "project": repository["project"]["slug"],
            "repository": f"{repository['id']}, {repository['url']}",
            "event": f"{delivery['kind']} {delivery['event']}",
            "host ID": _find_repository_id(delivery["kind"], body),
            "delivery ID": delivery["delivery"],
            "response": f"{delivery['http_status']} {response}",
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
    for line in _format_body(body):
        print(sanitize(line, max_length=_MAX_LINE_LENGTH))


def show_waiting_pushes(
    arguments: argparse.Namespace, waiting: Sequence[Row], projects: Mapping[int, str]
) -> None:
    """Print waiting pushes with their environments. `projects` has the slugs by ID of the push."""
    print_table(
        arguments,
        [
            Column("Environment", wraps=False),
            Column("Branch"),
            Column("Commit", wraps=False),
            Column("Trigger", wraps=False, is_optional=True),
            Column("Since", wraps=False),
        ],
        [
            (
                f"{projects[push['id']]}/{push['environment']['slug']}",
                push["branch"],
                (push["revision"] or "-")[:12],
                push["trigger"].replace("_", " "),
                format_age(push["since"]),
            )
            for push in waiting
        ],
        empty="No push waits.",
    )


def _describe_response(delivery: Row) -> Iterator[Text]:
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
    # Imported here: it is slow to import, and lists do not need it.
    from git_hosts.all_hosts import HOSTS

    host = HOSTS.get(kind)
    name, key = ("repository", "id") if host is None else host.repository_id_path
    repository = body.get(name) if isinstance(body, dict) else None
    found = repository.get(key) if isinstance(repository, dict) else None
    return "-" if found is None else str(found)


def _read_body(text: str) -> Any:
    """Return the parsed body; the text itself if it is not JSON, as in a refused delivery."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> NoReturn:
    # Python reads and writes NaN, which is not JSON.
    raise ValueError(name)


def _format_body(body: Any) -> list[str]:
    """Return the lines of the body: indented JSON, or other text unchanged."""
    if isinstance(body, str):
        return body.splitlines()
    return json.dumps(body, indent=2, ensure_ascii=False).splitlines()
