"""Finds the heartbeat or queue that an argument names."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from operator_cli.api.choose import choose
from operator_cli.api.client import Api
from operator_cli.api.names import Row
from operator_cli.api.problems import ApiRefused
from operator_cli.errors import NOT_FOUND

Kind = Literal["heartbeat", "queue"]


def find_monitor(api: Api, kind: Kind, name: str | None) -> Row:
    """Return the object of the API with this ID or name; the only one for None. Raises `CommandFailed`.

    `name` is `backup` or, as names are unique in an environment only, `production/backup` or `shop/production/backup`.
    """
    monitors = ("monitors", f"{kind}s")
    if name is not None and name.isdecimal():
        try:
            found: Row = api.get(*monitors, name)
            return found
        except ApiRefused as error:
            if error.exit_status != NOT_FOUND:
                raise
    if name:
        # An account may have thousands, of which the list has 100 a page.
        found_rows = api.get_all(*monitors, query={"name": name}, limit=2)
        same_name = [row for row in found_rows if row["name"] == name]
        if len(same_name) == 1:
            return same_name[0]
    rows = api.list_once(*monitors)
    count = Counter(row["name"] for row in rows)
    return choose(
        rows,
        name,
        noun=kind,
        keys=_keys,
        label=lambda row: str(row["name"]) if count[row["name"]] == 1 else format_path(row),
    )


def format_path(monitor: Row) -> str:
    """Return `PROJECT/ENVIRONMENT/NAME`, as commands accept it."""
    return f"{format_environment(monitor)}/{monitor['name']}"


def format_listed_names(monitors: Sequence[Row], *, is_wide: bool) -> list[tuple[str, str | None]]:
    """Return the name and the environment of each monitor of a list.

    In a list of several environments the name is the whole path, without which monitors of one name look alike, and the
    environment is None. With `is_wide` the list has room for both.
    """
    environments = [format_environment(monitor) for monitor in monitors]
    if is_wide or len(set(environments)) <= 1:
        return [
            (str(monitor["name"]), environment)
            for monitor, environment in zip(monitors, environments, strict=True)
        ]
    return [(format_path(monitor), None) for monitor in monitors]


def format_environment(monitor: Row) -> str:
    """Return the environment of a monitor as commands accept it: `PROJECT/ENVIRONMENT`."""
    return f"{monitor['project']['slug']}/{monitor['environment']['slug']}"


def _keys(monitor: Row) -> Sequence[str]:
    name = str(monitor["name"])
    return str(monitor["id"]), name, f"{monitor['environment']['slug']}/{name}", format_path(monitor)
