"""Finds the repository named by an argument."""

import argparse
from collections.abc import Sequence

from operator_cli.api.choose import choose
from operator_cli.api.client import Api
from operator_cli.api.names import Row

HELP = "the repository: its project, number or URL"


def add_repository_argument(parser: argparse.ArgumentParser) -> None:
    """Add the required `REPOSITORY`."""
    parser.add_argument("repository", metavar="REPOSITORY", help=HELP)


def resolve_repository(api: Api, name: str | None) -> Row:
    """Return the connected repository of this project, number or URL; the only one for None.

    A number also finds a disconnected one. Raises `CommandFailed`.
    """
    if name is not None and name.isdecimal():
        row: Row = api.get("repositories", name)
        return row
    return choose(api.list_once("repositories"), name, noun="repository", keys=_keys, label=_label)


def _keys(row: Row) -> Sequence[str]:
    project = row["project"]
    return project["id"], project["slug"], row["url"], project["name"]


def _label(row: Row) -> str:
    return str(row["project"]["slug"])
