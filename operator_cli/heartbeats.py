"""`pharos heartbeats`: all heartbeats at a glance."""

import argparse
import json

from operator_cli.ask import WHICH, ask
from operator_cli.credentials import add_data_argument


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeats", help="show all heartbeats at a glance", description=f"Heartbeats. {WHICH}"
    )
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    told = ask(arguments, "heartbeats/list")
    if arguments.json:
        print(json.dumps(told))
    else:
        from operator_cli.monitor_tables import show_heartbeats

        show_heartbeats(told)
    return 0
