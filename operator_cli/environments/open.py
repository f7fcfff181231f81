"""Command `pharos open`: open the application of an environment in a browser."""

import argparse
import sys

from operator_cli.api.client import open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import add_client_arguments, add_optional_environment_argument
from operator_cli.errors import CommandFailed
from operator_cli.messages import print_result


def register_open(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "open",
        help="open an environment in a browser",
        description="Print the address of an environment and, at a terminal, open it in a browser.",
    )
    add_optional_environment_argument(parser)
    parser.add_argument("--print", action="store_true", dest="prints_only", help="only print the address")
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment, option="", effect=Effect.READS)
    address = api.get("environments", environment.id, "processes")["address"]
    # The address comes from the server, and a browser opens other schemes with other programs.
    if address is None or not str(address).startswith(("http://", "https://")):
        raise CommandFailed(
            f"{environment.path} has no address yet: `pharos deploy {environment.path}` makes it live."
        )
    if not arguments.prints_only and not arguments.json and sys.stdout.isatty():
        # Imported here because the import searches for browsers.
        import webbrowser

        webbrowser.open(address)
    return print_result(
        arguments, {"environment": environment.path, "address": address}, _show, quiet="address"
    )


def _show(document: dict[str, str]) -> None:
    print(document["address"])
