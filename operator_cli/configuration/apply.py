"""Apply a configuration document and follow the configuration run until it is finished: `pharos config apply`."""

import argparse
import asyncio
import json
import re
import sys
import time
from contextlib import nullcontext
from typing import Any

from operator_cli.arguments import confirm
from operator_cli.configuration.document_arguments import read_plan_params
from operator_cli.control_client import RequestAction, open_client, request_action
from operator_cli.deployments.follow import INTERRUPTED
from operator_cli.errors import CommandFailed, InstallationUnreachable
from operator_cli.messages import OutageNotice, describe_not_live, qualify_commands

ConfigurationRun = dict[str, Any]

_POLL_SECONDS = 0.3
_WARN_AFTER_SECONDS = 5.0
_ENVIRONMENT = re.compile(r"environments(?:\.|\[\")([a-z0-9-]+)(?:\"\])?")
_VARIABLES = ("variables.", "variables[")


def apply_configuration(arguments: argparse.Namespace) -> int:
    """Review the document, ask, start a configuration run and follow it. Return the exit status.

    Returns 0 if the run succeeds or nothing changes, 1 if the person refuses. If the run fails, returns 1 with
    `--json` and raises `CommandFailed` without.
    """
    result = request_action(
        arguments, "configuration/review", {**read_plan_params(arguments), "by": arguments.by}
    )
    project, review = result["project"], result["review"]
    if not (arguments.json and arguments.yes):
        # Imported here: rich is slow to import, and --json needs none of it.
        from operator_cli.configuration.diff import open_console, show_plan

        show_plan(open_console(stderr=arguments.json), project, review["plan"])
        sys.stdout.flush()
    if not review["plan"]["actions"]:
        if arguments.json:
            print("null")
        return 0
    if not confirm(arguments, _describe_plan(project, review["plan"]["summary"])):
        return 1
    params = {"review_id": review["id"], "by": arguments.by, "approved_by": arguments.approved_by}
    return follow_run(arguments, request_action(arguments, "configuration/apply", params))


def _describe_plan(project: dict[str, Any], counts: dict[str, int]) -> str:
    return (
        f"create {counts['create']}, change {counts['update']} and delete {counts['delete']} resources of "
        f"{project['slug']}"
    )


def follow_run(arguments: argparse.Namespace, run: ConfigurationRun) -> int:
    """Print each step as it ends, until the run is finished. Return the exit status. Ctrl-C does not end the run."""
    try:
        ended = asyncio.run(_follow(arguments, run))
    except KeyboardInterrupt:
        number = run["id"]
        print(
            qualify_commands(
                f"\nApplication {number} is still in progress: `pharos config show {number}` shows its operations, "
                f"`pharos config cancel {number} OPERATION` cancels one that has not begun."
            ),
            file=sys.stderr,
        )
        return INTERRUPTED
    is_successful: bool = ended["status"] == "succeeded"
    if arguments.json:
        print(json.dumps(ended))
    elif is_successful:
        print(f"Application {ended['id']} has succeeded.")
        _show_changed_variables(arguments, list_changed_variables(ended))
    else:
        raise CommandFailed(_describe_failure(ended))
    return 0 if is_successful else 1


def _show_changed_variables(arguments: argparse.Namespace, environments: list[str]) -> None:
    """Print for each environment how its changed variables become live: by an approval, or with the next deploy."""
    pending: dict[str, int] = {}
    if environments:
        for change in request_action(arguments, "variables/waiting"):
            pending[f"{change['project']}/{change['environment']}"] = change["id"]
    for environment in environments:
        if environment in pending:
            number = pending[environment]
            print(
                qualify_commands(
                    f"{environment}: change {number} of its variables waits for a second person: `pharos approve "
                    f"variables {number} --by EMAIL`."
                )
            )
        else:
            print(f"{environment}: changed variables. {describe_not_live(environment)}")


def list_changed_variables(run: ConfigurationRun) -> list[str]:
    """Return the environments (`project/environment`) that existed before and whose variables the run changed."""
    return [
        f"{run['project']['slug']}/{found[1]}"
        for step in run["operations"]
        if step["action"] == "update"
        and (found := _ENVIRONMENT.fullmatch(step["resource"]))
        and any(change["field"].startswith(_VARIABLES) for change in step["changes"])
    ]


async def _follow(arguments: argparse.Namespace, run: ConfigurationRun) -> ConfigurationRun:
    """Return the finished run."""
    # Imported here: --json needs none of it.
    from operator_cli.configuration.run_screen import RunScreen

    began, is_warned, outage = time.monotonic(), False, OutageNotice()
    async with open_client(arguments) as request:
        with nullcontext() if arguments.json else RunScreen() as screen:
            while True:
                if screen is not None:
                    screen.show(run)
                if run["status"] != "running":
                    return run
                if _is_untouched(run) and not is_warned and time.monotonic() - began > _WARN_AFTER_SECONDS:
                    is_warned = True
                    print(
                        qualify_commands(
                            "pharos: No control plane seems to be running: start `pharos up` or `pharos control`."
                        ),
                        file=sys.stderr,
                    )
                await asyncio.sleep(_POLL_SECONDS)
                run = await _poll(request, outage, run)


async def _poll(request: RequestAction, outage: OutageNotice, run: ConfigurationRun) -> ConfigurationRun:
    """Return the current state of the run, or `run` while the installation is unreachable."""
    try:
        polled: ConfigurationRun = await request("configuration/show", {"id": run["id"]})
    except InstallationUnreachable as error:
        outage.report(error)
        return run
    outage.end()
    return polled


def _is_untouched(run: ConfigurationRun) -> bool:
    """Return True if no step has begun."""
    return all(step["status"] == "pending" for step in run["operations"])


def _describe_failure(run: ConfigurationRun) -> str:
    """Return what to do about a failed run; the cause is printed with the step."""
    number, steps = run["id"], run["operations"]
    name = f"Application {number} of {run['project']['slug']}"
    if run["status"] == "canceled":
        return (
            f"{name} was canceled, at least in part. `pharos config show {number}` lists its operations, `pharos "
            f"config retry {number} OPERATION` runs one after all."
        )
    failed = next(step["id"] for step in steps if step["status"] == "failed")
    count = sum(step["status"] == "pending" for step in steps)
    pending = f", and {count} operation{'s wait' if count > 1 else ' waits'} after it" if count else ""
    return (
        f"{name} has failed{pending}. Fix the cause, then `pharos config retry {number} {failed}` continues it; or "
        "apply the document again."
    )
