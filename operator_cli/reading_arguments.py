"""Arguments that all commands that read back share."""

import argparse

from operator_cli.credentials import add_data_argument
from operator_cli.durations import parse_duration

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
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MOST}")
    return int(text)
