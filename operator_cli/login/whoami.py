"""Command `pharos whoami`."""

import argparse
from typing import Any

from operator_cli.api.client import open_api
from operator_cli.api.default_environment import VARIABLE, read_default_environment
from operator_cli.api.problems import allow_missing_scope
from operator_cli.arguments import add_client_arguments
from operator_cli.messages import print_result
from operator_cli.terminal_text import print_facts


def register_whoami(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "whoami",
        help="show the installation, account and person of the next command",
        description="Show the installation and credential that commands use here, with their account and person, "
        "and the default environment.",
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    document = {
        "installation": api.target.base_url,
        "credential": api.target.source,
        "account": allow_missing_scope(lambda: api.get("account")),
        "person": (allow_missing_scope(lambda: api.get("me")) or {}).get("person"),
        "default_environment": read_default_environment(),
    }
    return print_result(arguments, document, _show, quiet="person.id")


def _show(document: dict[str, Any]) -> None:
    account, person = document["account"], document["person"]
    facts = {"credential": document["credential"]}
    facts["account"] = "unknown: the token lacks account:read" if account is None else str(account["slug"])
    facts["person"] = (
        "unknown: the token lacks deploy:read" if person is None else f"{person['name']} <{person['email']}>"
    )
    if document["default_environment"] is not None:
        facts["environment"] = f"{document['default_environment']}, from {VARIABLE}"
    print_facts(document["installation"], facts)
