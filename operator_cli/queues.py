"""`pharos queues`: all queues at a glance."""

import argparse

from operator_cli.ask import WHICH, add_ask_arguments
from operator_cli.monitor_actions import run_list


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("queues", help="show all queues at a glance", description=f"Queues. {WHICH}")
    add_ask_arguments(parser)
    parser.set_defaults(run=lambda arguments: run_list(arguments, "queue"))
