"""`pharos quiet-hours show|set|clear`, and the quiet hours of channels."""

import argparse
import re
from collections.abc import Mapping
from typing import Any, Final

from operator_cli.api.client import open_api
from operator_cli.arguments import add_verbs
from operator_cli.errors import UsageError
from operator_cli.messages import print_result

_VERBS: Final = {
    "show": "show your quiet hours",
    "set": "let notifications below critical wait for the end of these hours",
    "clear": "remove your quiet hours",
}
_DESCRIPTIONS: Final = {
    "set": "Waiting notifications are sent at their end, unless their incidents are over by then. "
    "Critical incidents are always sent at once.",
}
_PATH: Final = ("me", "notification-preferences")
_SPAN: Final = re.compile(r"((?:[01][0-9]|2[0-3]):[0-5][0-9])-((?:[01][0-9]|2[0-3]):[0-5][0-9])")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

QuietHours = Mapping[str, Any]
"""Quiet hours in the form of the API."""


def register_quiet_hours(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "quiet-hours",
        help="hours in which you get critical notifications only",
        description="Your quiet hours, in your time zone, for e-mail from Pharos to you. Channels have their own: "
        "`pharos channels set CHANNEL --quiet-hours`. `pharos quiet-hours` alone shows them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="show")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb != "set":
        return
    parser.add_argument("hours", metavar="FROM-TO", type=_parse_span, help="22:00-07:00")
    parser.add_argument(
        "--timezone", metavar="NAME", required=True, help="the time zone of these hours: Europe/Berlin"
    )
    _add_days_argument(parser)


def add_quiet_hours_options(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet-hours`, `--timezone` and `--days` of a channel."""
    parser.add_argument(
        "--quiet-hours",
        metavar="FROM-TO",
        type=_parse_span,
        dest="hours",
        help="only critical notifications in these hours: 22:00-07:00",
    )
    parser.add_argument(
        "--timezone", metavar="NAME", help="the time zone of these hours: Europe/Berlin (UTC)"
    )
    _add_days_argument(parser)


def _add_days_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days",
        nargs="+",
        metavar="DAY",
        type=_parse_days,
        help="days on which they begin: mon tuesday, or mon,tue (every day)",
    )


def read_quiet_hours(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the quiet hours in the form of the API; None if none are given. Raises `UsageError`."""
    hours: tuple[str, str] | None = getattr(arguments, "hours", None)
    timezone, days = getattr(arguments, "timezone", None), getattr(arguments, "days", None)
    if hours is None:
        if timezone is not None or days is not None:
            raise UsageError("--timezone and --days go with --quiet-hours FROM-TO.")
        return None
    begin, end = hours
    return {"from": begin, "to": end, "timezone": timezone or "UTC"} | (
        {} if days is None else {"days": [day for some in days for day in some]}
    )


def _parse_span(text: str) -> tuple[str, str]:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of hours; write 22:00-07:00")
    return found[1], found[2]


def _parse_days(text: str) -> list[str]:
    """Return the days of `mon` or `mon,tuesday`. Raises `argparse.ArgumentTypeError`."""
    days = []
    for word in text.split(","):
        matching = [day for day in _DAYS if len(word) >= 3 and day.startswith(word.lower())]
        if len(matching) != 1:
            raise argparse.ArgumentTypeError(f"{word!r} is not a day of the week, such as mon or monday")
        days += matching
    return days


def describe_quiet_hours(hours: QuietHours | None) -> str:
    """Return the quiet hours in words: `22:00 to 07:00 Europe/Berlin, on saturday, sunday`."""
    if hours is None:
        return "none"
    days = f", on {', '.join(hours['days'])}" if hours.get("days") else ""
    return f"{hours['from']} to {hours['to']} {hours['timezone']}{days}"


def _run(arguments: argparse.Namespace) -> int:
    hours = read_quiet_hours(arguments)
    api = open_api(arguments)
    is_read = arguments.verb == "show"
    preferences = api.get(*_PATH) if is_read else api.put(*_PATH, body={"quiet_hours": hours})
    return print_result(arguments, preferences, _show, quiet="quiet_hours.from")


def _show(preferences: dict[str, Any]) -> None:
    hours = preferences["quiet_hours"]
    if hours is None:
        print("No quiet hours: notifications are sent at any time.")
    else:
        print(f"Quiet hours: {describe_quiet_hours(hours)}. Critical notifications are sent at any time.")
