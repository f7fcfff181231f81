"""Command `pharos audit`."""

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from operator_cli.accounts.find_person import find_person
from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment, resolve_project
from operator_cli.arguments import add_client_arguments, complete
from operator_cli.counts import add_limit_argument
from operator_cli.durations import parse_age_or_moment
from operator_cli.messages import print_result


def register_audit(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "audit",
        help="show the audit log: changes with their author, time and origin",
        description="The newest entries of the account's audit log, newest first: changes through the API, by the "
        "installation itself, and by operators of its machine. Owners and admins may read it.",
    )
    _add_subject_arguments(parser)
    person = parser.add_argument(
        "--person", metavar="PERSON", help="only changes by this person: e-mail address, name or ID"
    )
    complete(person, "person")
    parser.add_argument("--action", metavar="ACTION", help="only changes with this action: variables.update")
    for flag, which in (("--since", "at this time or later"), ("--until", "before this time")):
        parser.add_argument(
            flag,
            type=parse_age_or_moment,
            metavar="TIME",
            help=f"only changes {which}: 2026-11-20, 2026-11-20T09:30Z, or 2d for two days ago",
        )
    add_limit_argument(parser, 50)
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    subject = parser.add_mutually_exclusive_group()
    project = subject.add_argument("--project", metavar="NAME", help="only changes of this project itself")
    complete(project, "project")
    environment = subject.add_argument(
        "--environment",
        metavar="NAME",
        help="only changes of this environment itself: its settings, lock and variables",
    )
    complete(environment, "environment")
    subject.add_argument(
        "--subject",
        metavar="TEXT",
        help="only changes of this subject: `deployment 7`, or an ID alone: prj_…",
    )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    query = {
        "subject": _find_subject(api, arguments),
        "person": None if arguments.person is None else str(find_person(api, arguments.person)["id"]),
        "action": arguments.action,
        "since": _format(api, arguments.since),
        "until": _format(api, arguments.until),
    }
    entries = api.get_all("audit", query=query, limit=arguments.limit)
    return print_result(arguments, entries, lambda entries: _show(arguments, entries))


def _format(api: Api, moment: datetime | timedelta | None) -> str | None:
    """Return the time. An age is counted by the clock of the installation, from which entries have their times."""
    if isinstance(moment, timedelta):
        moment = api.read_clock() - moment
    return None if moment is None else moment.isoformat()


def _find_subject(api: Api, arguments: argparse.Namespace) -> str | None:
    if arguments.project is not None:
        return resolve_project(api, arguments.project).id
    if arguments.environment is not None:
        return resolve_environment(api, arguments.environment, effect=Effect.READS).id
    subject: str | None = arguments.subject
    return subject


def _show(arguments: argparse.Namespace, entries: Sequence[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.audit_table import show_audit_entries

    show_audit_entries(arguments, entries)
