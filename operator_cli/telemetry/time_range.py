"""The time range of commands that read stored telemetry, and their environment."""

import argparse
from datetime import UTC, datetime, timedelta

from operator_cli.api.client import Query
from operator_cli.arguments import complete
from operator_cli.durations import encode_duration, format_duration, parse_duration, parse_moment
from operator_cli.errors import UsageError


def add_environment_option(parser: argparse._ActionsContainer) -> None:
    """Add `--environment`."""
    environment = parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="the environment: production, shop/production or an ID; by default "
        "PHAROS_DEFAULT_ENVIRONMENT, or the only one",
    )
    complete(environment, "environment")


def add_range_arguments(parser: argparse._ActionsContainer, default: str) -> None:
    """Add `--since` and `--until`. Without them, a command reads the last `default`."""
    parser.add_argument(
        "--since",
        type=_parse_start,
        metavar="TIME",
        help=f"how far back, 15m or 7d, or from this time on, 2026-11-20T09:30Z ({default}; at most 90d)",
    )
    parser.add_argument(
        "--until", type=parse_moment, metavar="TIME", help="up to this time, or 2h for two hours ago (now)"
    )
    parser.set_defaults(default_since=parse_duration(default))


def _parse_start(text: str) -> int | datetime:
    """Return the seconds of a duration, or a time. Raises `argparse.ArgumentTypeError`."""
    try:
        return parse_duration(text)
    except argparse.ArgumentTypeError:
        return parse_moment(text)


def refuse_following_a_past_range(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` if `--follow` and `--until` were given."""
    if arguments.follow and arguments.until is not None:
        raise UsageError("--follow shows new rows, and --until ends in the past: leave one of them out.")


def encode_range(arguments: argparse.Namespace) -> Query:
    """Return the parameters of the API for the time range. Raises `UsageError`."""
    since: int | datetime = arguments.default_since if arguments.since is None else arguments.since
    until: datetime | None = arguments.until
    if isinstance(since, int):
        if until is None:
            return {"since": encode_duration(since)}
        # A default is counted from the end of the range, a given duration from now.
        end = until if arguments.since is None else datetime.now(UTC)
        try:
            since = end - timedelta(seconds=since)
        except OverflowError:
            raise UsageError("--since is before all times.") from None
    return {"from": since.isoformat(), "to": None if until is None else until.isoformat()}


def describe_no_results(kind: str, path: str, arguments: argparse.Namespace) -> str:
    """Return the message that the environment has no items of a kind, with the flag to search further back."""
    since = arguments.default_since if arguments.since is None else arguments.since
    within = (
        f"in the last {format_duration(since)}"
        if isinstance(since, int) and arguments.until is None
        else "in this time"
    )
    return f"No {kind} of {path} {within}; --since looks further back."
