"""`pharos sites`: all sites at a glance."""

import argparse

from operator_cli.ask import WHICH, add_ask_arguments
from operator_cli.site import run_list


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("sites", help="show all sites at a glance", description=f"Sites. {WHICH}")
    add_ask_arguments(parser)
    parser.set_defaults(run=run_list)
