"""Command `pharos up`: the whole platform in one process."""

import argparse

from operator_cli.credentials import add_data_argument


def register_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "up",
        help="run the whole platform in this process",
        description="Run the whole platform in this process, with its data in one folder. The first start creates "
        "an account with a project, a production environment and their keys.",
    )
    add_data_argument(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (8000; 0: any free one)")
    parser.add_argument(
        "--apps-port",
        type=int,
        metavar="PORT",
        help="port on which deployed applications answer (--port + 90: 8090)",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="add a shop with its tracker, 90 days of visits, and live traffic",
    )
    # By name: importing the platform takes up to a second, and `--help` and completion do not need it.
    parser.set_defaults(run="processes.run_up:run_up", announce=_announce)


def _announce(arguments: argparse.Namespace) -> None:
    """Print the first line, before the import of the platform."""
    # Imported here because it is slow: `--help` does not need it.
    from importlib.metadata import version

    print(f"Starting Pharos {version('pharos')} with its data in {arguments.data}", flush=True)
