"""What all commands that read back share: their arguments, and what they say where there is nothing."""

import argparse

from operator_cli.ask import WHICH, add_ask_arguments
from operator_cli.durations import parse_duration, show_duration

WHICH_STORE = f"{WHICH} PHAROS_CLICKHOUSE_URL is needed as well then."

_MOST = 1000


def add_reading_arguments(parser: argparse.ArgumentParser, *, since: str, lines: int) -> None:
    """`--since`, `-n`, `--environment`, `--data` and `--json`."""
    parser.add_argument(
        "--since",
        type=parse_duration,
        default=parse_duration(since),
        metavar="TIME",
        help=f"how far back ({since})",
    )
    parser.add_argument(
        "-n", "--lines", type=_count, default=lines, metavar="N", help=f"how many ({lines}; 1 to {_MOST})"
    )
    parser.add_argument("--environment", default="", metavar="ID", help="of this environment only, env_…")
    add_ask_arguments(parser)


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MOST}")
    return int(text)


def nothing_found(what: str, arguments: argparse.Namespace) -> str:
    """Nothing was found, and where to look further."""
    return f"No such {what} in the last {show_duration(arguments.since)}; --since looks further back."
