"""Prints repositories as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.plain_text import cell
from operator_cli.typed_commands import typed_commands


def show_repositories(repositories: list[dict[str, Any]]) -> None:
    """Each with its project and whether its webhooks are listened to."""
    if not repositories:
        print(typed_commands("No repositories yet. `pharos repository connect URL` connects one."))
        return
    table = Table("ID", "Project", "Kind", "Branch", "Webhooks", "Address", box=None, pad_edge=False)
    table.columns[5].overflow = "fold"
    for repository in repositories:
        table.add_row(
            str(repository["id"]),
            cell(repository["project"]["slug"]),
            repository["kind"],
            cell(repository["branch"], most=60),
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
    address = cell(repository["url"])
    return Text.assemble(address, (" (sample)", "dim")) if repository["sample"] else address
