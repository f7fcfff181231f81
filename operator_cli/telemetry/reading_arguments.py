"""Arguments and the message for no results of commands that read stored telemetry."""

import argparse

from operator_cli.control_client import add_data_and_json_arguments
from operator_cli.durations import format_duration, parse_duration

_MAX_COUNT = 1000


def add_reading_arguments(parser: argparse.ArgumentParser, *, since: str, lines: int) -> None:
    """Add `--since`, `-n`, `--environment`, `--data` and `--json`."""
    add_range_arguments(parser, since=since, lines=lines)
    add_data_and_json_arguments(parser)


def add_range_arguments(parser: argparse.ArgumentParser, *, since: str, lines: int) -> None:
    """Add `--since`, `-n` and `--environment`."""
    parser.add_argument(
        "--since",
        type=parse_duration,
        default=parse_duration(since),
        metavar="TIME",
        help=f"how far back ({since})",
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=_parse_count,
        default=lines,
        metavar="N",
        help=f"how many ({lines}; 1 to {_MAX_COUNT})",
    )
    parser.add_argument("--environment", default="", metavar="ID", help="of this environment only, env_…")


def _parse_count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MAX_COUNT}")
    return int(text)


def describe_no_results(kind: str, arguments: argparse.Namespace) -> str:
    """Return the message that nothing of this kind was found, with the option to search further back."""
    return f"Found no {kind} in the last {format_duration(arguments.since)}; --since looks further back."
