"""How many rows a command prints: `-n`, `--limit`."""

import argparse
from typing import Final

_MAX_COUNT: Final = 1000


def add_limit_argument(parser: argparse.ArgumentParser, default: int) -> None:
    """Add `-n` and `--limit`."""
    parser.add_argument(
        "-n",
        "--limit",
        type=_parse_count,
        default=default,
        metavar="N",
        help=f"how many ({default}; 1 to {_MAX_COUNT})",
    )


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MAX_COUNT}")
    return int(text)
