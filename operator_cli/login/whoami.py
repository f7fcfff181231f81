"""Command `pharos whoami`."""

import argparse
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_client_arguments
from operator_cli.messages import print_result
from operator_cli.terminal_text import print_facts


def register_whoami(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "whoami",
        help="show the installation, account and person of the next command",
        description="Show which installation and credential commands use here, and whose they are.",
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    document = {
        "installation": api.target.base_url,
        "credential": api.target.source,
        "account": _read_if_allowed(api, "account"),
        "person": (_read_if_allowed(api, "me") or {}).get("person"),
    }
    return print_result(arguments, document, _show)


def _read_if_allowed(api: Api, path: str) -> dict[str, Any] | None:
    """Return an object, or None if the token lacks the scope for it."""
    try:
        found: dict[str, Any] = api.get(path)
    except ApiRefused as error:
        if error.slug != "missing-scope":
            raise
        return None
    return found


def _show(document: dict[str, Any]) -> None:
    account, person = document["account"], document["person"]
    facts = {"credential": document["credential"]}
    facts["account"] = "unknown: the token lacks account:read" if account is None else str(account["slug"])
    facts["person"] = (
        "unknown: the token lacks deploy:read" if person is None else f"{person['name']} <{person['email']}>"
    )
    print_facts(document["installation"], facts)
