"""`pharos issues list|show|resolve|ignore|reopen|assign`: groups of exceptions with their status and assignee."""

import argparse
import re
from typing import Any, Final

from operator_cli.accounts.find_person import find_person
from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Environment, resolve_environment
from operator_cli.arguments import add_verbs, complete
from operator_cli.counts import add_limit_argument
from operator_cli.errors import CommandFailed, NoSuchName
from operator_cli.messages import print_result
from operator_cli.telemetry.time_range import (
    add_environment_option,
    add_range_arguments,
    describe_no_results,
    encode_range,
)

_VERBS = {
    "list": "list groups of exceptions, by default the open ones",
    "show": "show an issue with its last stack and its last exceptions",
    "resolve": "mark an issue as fixed; it opens again once a newer release raises it",
    "ignore": "mark an issue as not worth fixing; it stays ignored",
    "reopen": "open a resolved or ignored issue",
    "assign": "assign an issue to a person, or to nobody",
}
_DESCRIPTIONS = {
    "list": "Users counts the affected users that an event reports, or distinct values of user.id. After is the "
    "deployment after which they appeared: Pharos' own by its commit, recorded ones by their version.",
    "resolve": "Exceptions of the release that is live now, and of older ones, only count.",
}
_STATUS_OF_VERB: Final = {"resolve": "resolved", "ignore": "ignored", "reopen": "open"}
_STATUSES: Final = ("open", "resolved", "ignored", "all")
_ID: Final = re.compile("[0-9a-f]{16}")
_BEGINNING: Final = re.compile("[0-9a-f]{6,15}")
_SEARCHED: Final = 1000
_SEARCHED_SINCE: Final = "90d"


def register_issues(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "issues",
        help="groups of exceptions with their status and assignee",
        description="Exceptions of telemetry events, spans and log records, grouped by the sender's fingerprint, else "
        "by their type, their message without variable parts, and the place where they were raised. `pharos issues` "
        "alone lists them.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS, default="list")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    add_environment_option(parser)
    if verb != "list":
        parser.add_argument(
            "issue", metavar="ISSUE", help="the ID of the issue, or the beginning that `list` shows"
        )
    match verb:
        case "list":
            parser.add_argument("--status", choices=_STATUSES, default="open", help="by default open")
            assignee = parser.add_argument(
                "--assignee", metavar="PERSON", help="e-mail address, name or ID; me; or none for nobody"
            )
            complete(assignee, "person")
            parser.add_argument("--service", metavar="NAME", help="raised in this service")
            add_range_arguments(parser, "14d")
            add_limit_argument(parser, 20)
        case "show":
            add_range_arguments(parser, "14d")
            add_limit_argument(parser, 5, what="how many exceptions")
        case "assign":
            person = parser.add_argument(
                "person", metavar="PERSON", help="e-mail address, name or ID; me; or none for nobody"
            )
            complete(person, "person")


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    effect = Effect.READS if arguments.verb in ("list", "show") else Effect.ADDS
    environment = resolve_environment(api, arguments.environment, effect=effect)
    if arguments.verb == "list":
        return _list(api, arguments, environment)
    path = ("environments", environment.id, "exceptions", _find_issue(api, environment, arguments.issue))
    match arguments.verb:
        case "show":
            within = encode_range(arguments)
            issue = api.get(*path, query=within)
            issue["events"] = api.get_all(*path, "events", query=within, limit=arguments.limit)
            return print_result(arguments, issue, lambda found: _show_one(arguments, found))
        case "assign":
            issue = api.patch(*path, body={"assignee": _find_assignee(api, arguments.person)})
        case verb:
            issue = api.patch(*path, body={"status": _STATUS_OF_VERB[verb]})
    return print_result(arguments, issue, _show_changed)


def _list(api: Api, arguments: argparse.Namespace, environment: Environment) -> int:
    assignee = None
    if arguments.assignee is not None:
        assignee = _find_assignee(api, arguments.assignee) or "none"
    query = {
        "status": None if arguments.status == "all" else arguments.status,
        "assignee": assignee,
        "service": arguments.service,
        **encode_range(arguments),
    }
    issues = api.get_all("environments", environment.id, "exceptions", query=query, limit=arguments.limit)
    return print_result(arguments, issues, lambda rows: _show_list(arguments, rows, environment.path))


def _find_issue(api: Api, environment: Environment, name: str) -> str:
    """Return the ID of an issue. The beginning of an ID is searched among the issues that were seen last. Raises
    `CommandFailed`."""
    name = name.lower()
    if _ID.fullmatch(name):
        return name
    if not _BEGINNING.fullmatch(name):
        raise NoSuchName(
            f"{name!r} is not the ID of an issue, which has 16 hexadecimal digits. `pharos issues list` shows them."
        )
    path = ("environments", environment.id, "exceptions")
    issues = api.get_all(*path, query={"since": _SEARCHED_SINCE}, limit=_SEARCHED)
    found = [issue["id"] for issue in issues if issue["id"].startswith(name)]
    if len(found) > 1:
        raise CommandFailed(f"{name!r} means several issues. Name one of them: {', '.join(sorted(found))}.")
    if not found:
        raise NoSuchName(
            f"No issue of {environment.path} begins with {name!r}. `pharos issues list --status all` lists them."
        )
    return str(found[0])


def _find_assignee(api: Api, name: str) -> str | None:
    """Return the ID of the person; None for `none`."""
    if name == "none":
        return None
    person = api.get("me")["person"] if name == "me" else find_person(api, name)
    return str(person["id"])


def _show_list(arguments: argparse.Namespace, issues: list[dict[str, Any]], path: str) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.telemetry.issue_tables import show_issues

    statuses = "" if arguments.status == "all" else f"{arguments.status} "
    show_issues(arguments, issues, describe_no_results(f"{statuses}issues", path, arguments))


def _show_one(arguments: argparse.Namespace, issue: dict[str, Any]) -> None:
    from operator_cli.telemetry.issue_tables import show_issue

    show_issue(arguments, issue)


def _show_changed(issue: dict[str, Any]) -> None:
    assignee = "nobody" if issue["assignee"] is None else issue["assignee"]["email"]
    print(f"Issue {issue['id']} is {issue['status']}, assigned to {assignee}.")
    if issue["status"] == "resolved":
        print("It opens again once a newer release raises it.")
