"""Prints the log of one deployment, as it is or live."""

import argparse
import json
import sys

from operator_cli.ask import ask
from operator_cli.follow_screen import FollowScreen
from operator_cli.following import MOST_LINES, follow_deployment


def show_deployment_log(arguments: argparse.Namespace, number: int, lines: int | None) -> int:
    """Its last lines; with `--follow` all that come, and how it ends. Gives the exit status."""
    most = lines or MOST_LINES
    if arguments.follow:
        return follow_deployment(arguments, number, most)
    seen = ask(arguments, "deployments/follow", {"id": number, "lines": most})
    if arguments.json:
        names = ("lines", "truncated", "deployment")
        print(json.dumps({name: seen[name] for name in names}))
        return 0
    if seen["truncated"] and lines is None:
        print(f"pharos: these are the last {most:,} lines.", file=sys.stderr)
    with FollowScreen(as_json=False, is_live=False) as screen:
        screen.show(seen)
    return 0
