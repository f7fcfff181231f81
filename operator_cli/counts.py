"""How many rows a command prints: `-n`, `--limit`."""

import argparse
from typing import Final

MAX_COUNT: Final = 1000


def add_limit_argument(
    parser: argparse.ArgumentParser, default: int, *, other_name: str = "--limit", what: str = "how many"
) -> None:
    """Add `-n`, and `--limit` or its name in this command."""
    parser.add_argument(
        "-n",
        other_name,
        dest="limit",
        type=_parse_count,
        default=default,
        metavar="N",
        help=f"{what} ({default}; 1 to {MAX_COUNT})",
    )


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {MAX_COUNT}")
    return int(text)
