"""`pharos heartbeats`: all heartbeats at a glance."""

import argparse

from operator_cli.ask import WHICH, add_ask_arguments
from operator_cli.monitor_actions import run_list


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeats", help="show all heartbeats at a glance", description=f"Heartbeats. {WHICH}"
    )
    add_ask_arguments(parser)
    parser.set_defaults(run=lambda arguments: run_list(arguments, "heartbeat"))
