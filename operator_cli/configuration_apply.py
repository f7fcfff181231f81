"""Applies a configuration document, and follows that until it is finished: `pharos config apply`."""

import argparse
import asyncio
import json
import re
import sys
import time
from contextlib import nullcontext
from typing import Any

from operator_cli.ask import Ask, ask, asking
from operator_cli.configuration_bindings import read_wanted
from operator_cli.confirm import confirmed
from operator_cli.failure import CommandFailed, NotReached
from operator_cli.following import INTERRUPTED
from operator_cli.still_waiting import StillWaiting
from operator_cli.typed_commands import typed_commands
from operator_cli.variables import not_live

Application = dict[str, Any]

_POLL_SECONDS = 0.3
_LEFT_SECONDS = 5.0
_ENVIRONMENT = re.compile(r"environments(?:\.|\[\")([a-z0-9-]+)(?:\"\])?")
_VARIABLES = ("variables.", "variables[")


def apply_configuration(arguments: argparse.Namespace) -> int:
    """Review the document, ask, apply it and follow that.

    Gives 0 where there is nothing to change too, 1 where somebody said no, and with `--json` 1 where not all of it was
    carried out, for which it else raises `CommandFailed`.
    """
    told = ask(arguments, "configuration/review", {**read_wanted(arguments), "by": arguments.by})
    project, review = told["project"], told["review"]
    if not (arguments.json and arguments.yes):
        # Only here: a program that asks for JSON need not wait for what draws.
        from operator_cli.configuration_diff import open_console, show_plan

        show_plan(open_console(stderr=arguments.json), project, review["plan"])
        sys.stdout.flush()
    if not review["plan"]["actions"]:
        if arguments.json:
            print("null")
        return 0
    if not confirmed(arguments, _told_wish(project, review["plan"]["summary"])):
        return 1
    wanted = {"review_id": review["id"], "by": arguments.by, "approved_by": arguments.approved_by}
    return follow_application(arguments, ask(arguments, "configuration/apply", wanted))


def _told_wish(project: dict[str, Any], counts: dict[str, int]) -> str:
    return (
        f"create {counts['create']}, change {counts['update']} and delete {counts['delete']} resources of "
        f"{project['slug']}"
    )


def follow_application(arguments: argparse.Namespace, application: Application) -> int:
    """Show what becomes of each operation until the application is finished; gives the exit status. Ctrl-C ends the
    following only."""
    try:
        ended = asyncio.run(_follow(arguments, application))
    except KeyboardInterrupt:
        number = application["id"]
        print(
            typed_commands(
                f"\nApplication {number} is still in progress: `pharos config show {number}` shows its operations, "
                f"`pharos config cancel {number} OPERATION` cancels one that has not begun."
            ),
            file=sys.stderr,
        )
        return INTERRUPTED
    is_done: bool = ended["status"] == "succeeded"
    if arguments.json:
        print(json.dumps(ended))
    elif is_done:
        print(f"Application {ended['id']} is carried out.")
        _show_changed_variables(arguments, changed_variables(ended))
    else:
        raise CommandFailed(_told_failure(ended))
    return 0 if is_done else 1


def _show_changed_variables(arguments: argparse.Namespace, environments: list[str]) -> None:
    """Print for each environment how its changed variables become live: by an approval, or with the next deploy."""
    pending: dict[str, int] = {}
    if environments:
        for change in ask(arguments, "variables/waiting"):
            pending[f"{change['project']}/{change['environment']}"] = change["id"]
    for environment in environments:
        if environment in pending:
            number = pending[environment]
            print(
                typed_commands(
                    f"{environment}: change {number} of its variables waits for a second person: `pharos approve "
                    f"variables {number} --by EMAIL`."
                )
            )
        else:
            print(f"{environment}: changed variables. {not_live(environment)}")


def changed_variables(application: Application) -> list[str]:
    """The environments (`project/environment`) that were there before and have other variables now."""
    return [
        f"{application['project']['slug']}/{found[1]}"
        for operation in application["operations"]
        if operation["action"] == "update"
        and (found := _ENVIRONMENT.fullmatch(operation["resource"]))
        and any(change["field"].startswith(_VARIABLES) for change in operation["changes"])
    ]


async def _follow(arguments: argparse.Namespace, application: Application) -> Application:
    """The application as it is in the end."""
    # Only here: `plan` needs nothing that draws bars.
    from operator_cli.application_screen import ApplicationScreen

    began, is_warned, waiting = time.monotonic(), False, StillWaiting()
    async with asking(arguments) as ask_again:
        with nullcontext() if arguments.json else ApplicationScreen() as screen:
            while True:
                if screen is not None:
                    screen.show(application)
                if application["status"] != "running":
                    return application
                if _is_left(application) and not is_warned and time.monotonic() - began > _LEFT_SECONDS:
                    is_warned = True
                    print(
                        typed_commands("pharos: Nothing takes it up: start `pharos up` or `pharos control`."),
                        file=sys.stderr,
                    )
                await asyncio.sleep(_POLL_SECONDS)
                application = await _look_again(ask_again, waiting, application)


async def _look_again(ask_again: Ask, waiting: StillWaiting, application: Application) -> Application:
    """As it is now; as it was where the installation is away."""
    try:
        seen: Application = await ask_again("configuration/show", {"id": application["id"]})
    except NotReached as failure:
        waiting.tell(failure)
        return application
    waiting.end()
    return seen


def _is_left(application: Application) -> bool:
    """Whether nobody has begun anything of it."""
    return all(operation["status"] == "pending" for operation in application["operations"])


def _told_failure(application: Application) -> str:
    """What to do about it; what was in the way is told with the operation."""
    number, operations = application["id"], application["operations"]
    told = f"Application {number} of {application['project']['slug']}"
    if application["status"] == "canceled":
        return (
            f"{told} was canceled, at least in part. `pharos config show {number}` lists its operations, `pharos "
            f"config retry {number} OPERATION` carries one out after all."
        )
    failed = next(one["id"] for one in operations if one["status"] == "failed")
    waiting = sum(one["status"] == "pending" for one in operations)
    behind = f", and {waiting} operation{'s wait' if waiting > 1 else ' waits'} behind it" if waiting else ""
    return (
        f"{told} has failed{behind}. Mend what is in the way, then `pharos config retry {number} {failed}` goes on "
        "with it; or apply the document anew."
    )
