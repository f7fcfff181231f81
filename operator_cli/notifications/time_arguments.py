"""How long a silence lasts: `--for` or `--until`."""

import argparse
from datetime import UTC, datetime, timedelta

from operator_cli.api.client import Api
from operator_cli.durations import parse_duration


def add_end_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--for` and `--until`, of which one is required."""
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument(
        "--for", type=parse_duration, metavar="TIME", dest="seconds", help="how long: 30m, 4h, 1d"
    )
    end.add_argument(
        "--until", type=parse_time, metavar="TIME", help="when it ends: 2026-11-20T09:30Z; at most 90 days"
    )


def parse_time(text: str) -> datetime:
    """Return a time, in UTC without a time zone. Raises `argparse.ArgumentTypeError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 2026-11-20T09:30Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_end(api: Api, arguments: argparse.Namespace, begin: datetime | None) -> datetime:
    """Return the end. A duration is counted by the clock of the installation."""
    until: datetime | None = arguments.until
    if until is not None:
        return until
    return (begin or api.read_clock()) + timedelta(seconds=arguments.seconds)
