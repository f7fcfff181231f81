"""`pharos account show|rename` for the account of the token, and `list|create|set-limit` for all accounts."""

import argparse
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.problems import allow_missing_scope
from operator_cli.arguments import add_client_arguments
from operator_cli.local.accounts import add_local_account_verbs
from operator_cli.messages import print_result

_VERBS = {
    "show": "show your account with its people and projects",
    "rename": "change the name of your account",
}
_DESCRIPTIONS = {"rename": "Its slug stays, because commands and documents refer to it."}


def register_account(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "account",
        help="your account, and all accounts of an installation",
        description="Accounts: each has its own people, projects, tokens and limits. A token belongs to one account, "
        "which is yours in these commands.",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for verb, summary in _VERBS.items():
        subcommand = verbs.add_parser(
            verb,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}. {_DESCRIPTIONS.get(verb, '')}".rstrip(),
        )
        if verb == "rename":
            subcommand.add_argument("name", metavar="NAME", help="the new name")
        add_client_arguments(subcommand)
        subcommand.set_defaults(run=_run)
    add_local_account_verbs(verbs)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    if arguments.verb == "show":
        return print_result(arguments, _read(api), lambda account: _show(arguments, account))
    renamed = api.patch("account", body={"name": arguments.name})
    return print_result(
        arguments,
        renamed,
        lambda account: print(f"The account {account['slug']} is called {account['name']} now."),
    )


def _read(api: Api) -> dict[str, Any]:
    """Return the account with its `people`, and with its `plan` and `projects` if the token may read them."""
    return {
        **api.get("account"),
        "plan": allow_missing_scope(lambda: api.get("me")["organization"]["plan"]),
        "projects": allow_missing_scope(lambda: api.get_all("projects")),
        "people": api.get_all("people"),
    }


def _show(arguments: argparse.Namespace, account: dict[str, Any]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.tables import show_people
    from operator_cli.terminal_text import print_facts

    facts = {"slug": account["slug"], "ID": account["id"]}
    if account["plan"] is not None:
        facts["plan"] = f"{account['plan']['name']}, {_describe_limits(account['plan']['limits'])}"
    if account["projects"] is not None:
        facts["projects"] = ", ".join(project["slug"] for project in account["projects"]) or "none yet"
    print_facts(account["name"], facts)
    print()
    show_people(arguments, account["people"])


def _describe_limits(limits: dict[str, Any]) -> str:
    rate = f"{limits['ingest_events_per_second']:,.3f}".rstrip("0").removesuffix(".")
    return f"{rate} events/s, {limits['ingest_burst']:,} at once"
