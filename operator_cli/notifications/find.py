"""Finds the channel, rule, threshold, incident or person named by an argument of a notification command."""

import argparse
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus

from operator_cli.accounts.find_person import find_person
from operator_cli.api.choose import choose
from operator_cli.api.client import Api
from operator_cli.api.names import Row, resolve_row
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import complete
from operator_cli.errors import NoSuchName

CHANNELS = "notification-channels"
RULES = "notification-rules"
DEFAULT_RULE = "default-notification-rule"


def add_channel_argument(parser: argparse.ArgumentParser) -> None:
    """Add the required `CHANNEL`."""
    complete(parser.add_argument("channel", metavar="CHANNEL", help="the channel: its name or ID"), "channel")


def add_rule_argument(parser: argparse.ArgumentParser) -> None:
    """Add the required `RULE`."""
    complete(parser.add_argument("rule", metavar="RULE", help="the rule: its name or ID"), "rule")


def add_threshold_argument(parser: argparse.ArgumentParser) -> None:
    """Add the required `THRESHOLD`."""
    threshold = parser.add_argument(
        "threshold_name",
        metavar="THRESHOLD",
        help="the threshold: its name (slow, production/slow or shop/production/slow) or ID",
    )
    complete(threshold, "threshold")


def find_channel(api: Api, name: str) -> Row:
    """Return the channel with this name, ID or number. Raises `CommandFailed`."""
    return _find(api, CHANNELS, name, "channel")


def find_rule(api: Api, name: str) -> Row:
    """Return the rule with this name or number. Raises `CommandFailed`."""
    return _find(api, RULES, name, "rule")


def _find(api: Api, path: str, name: str, noun: str) -> Row:
    if name.isdecimal() and (found := _get(api, path, name)) is not None:
        return found
    return resolve_row(api, path, name=name, noun=noun, keys=("id", "name"))


def find_threshold(api: Api, name: str) -> Row:
    """Return the threshold with this name, path or number. Raises `CommandFailed`."""
    if name.isdecimal() and (found := _get(api, "thresholds", name)) is not None:
        return found
    rows = api.list_once("thresholds")
    count = Counter(row["name"] for row in rows)
    return choose(
        rows,
        name,
        noun="threshold",
        keys=_keys_of_threshold,
        label=lambda row: (
            str(row["name"]) if count[row["name"]] == 1 else f"{format_place(row)}/{row['name']}"
        ),
    )


def _keys_of_threshold(row: Row) -> Sequence[str]:
    name, place = str(row["name"]), format_place(row)
    return str(row["id"]), name, f"{place.partition('/')[2]}/{name}", f"{place}/{name}"


def _get(api: Api, path: str, number: str) -> Row | None:
    """Return the row with this number; None if there is none, because the text may be a name of digits."""
    try:
        found: Row = api.get(path, number)
    except ApiRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return found


def find_incident(api: Api, name: str) -> Row:
    """Return the incident with this ID, or the beginning of one that `list` shows. Raises `CommandFailed`."""
    return _find_newest(api, "incidents", name, "incident", "incidents")


def find_notification(api: Api, name: str) -> Row:
    """Return the notification with this ID, or the beginning of one that `list` shows. Raises `CommandFailed`."""
    return _find_newest(api, "notifications", name, "notification", "notifications")


_SEARCHED = 500


def _find_newest(api: Api, path: str, name: str, noun: str, command: str) -> Row:
    if (found := _get(api, path, name)) is not None:
        return found
    rows = api.get_all(path, limit=_SEARCHED)
    if not rows:
        raise NoSuchName(f"There is no {noun} yet.")
    if (begun := [row for row in rows if str(row["id"]).startswith(name)]) and len(begun) == 1:
        found = _get(api, path, str(begun[0]["id"]))
        if found is not None:
            return found
    if len(begun) > 1:
        raise NoSuchName(f"{name!r} is the beginning of several IDs: write more characters.")
    raise NoSuchName(
        f"None of the newest {_SEARCHED} {command} has the ID {name!r}. `pharos {command} list` shows them."
    )


def find_recipients(api: Api, channels: Sequence[str], people: Sequence[str]) -> list[dict[str, object]]:
    """Return the recipients of a rule in the form of the API. Raises `CommandFailed`."""
    return [
        *({"channel": find_channel(api, name)["id"]} for name in channels),
        *({"person": find_person(api, name)["id"]} for name in people),
    ]


def format_place(row: Row) -> str:
    """Return `PROJECT/ENVIRONMENT`, `PROJECT`, or `-` without a project."""
    project, environment = row.get("project"), row.get("environment")
    if project is None:
        return "-"
    return str(project["slug"]) if environment is None else f"{project['slug']}/{environment['slug']}"
