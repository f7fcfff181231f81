"""Queue a deployment, follow it until it is final, and print its log."""

import argparse
import asyncio
import json
import sys
import time
from typing import Any

from operator_cli.control_client import (
    RequestAction,
    add_data_and_json_arguments,
    open_client,
    request_action,
)
from operator_cli.deployments.follow_screen import FollowScreen, format_elapsed
from operator_cli.errors import CommandFailed, InstallationUnreachable
from operator_cli.messages import OutageNotice, qualify_commands
from pipeline_contracts.deploy_states import FINAL_STATUSES, DeploymentStatus

AWAITS_APPROVAL = 3
"""Exit status: a second person has to approve the deployment first."""
INTERRUPTED = 130
MAX_LINES = 1000
_POLL_SECONDS = 0.3
_WARN_AFTER_SECONDS = 5.0

Deployment = dict[str, Any]


def add_queueing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--by` and `--detach`."""
    parser.add_argument(
        "--by", metavar="EMAIL", help="the person who asks for it and may deploy in the project"
    )
    parser.add_argument(
        "--detach", action="store_true", help="only queue it; do not wait until it is finished"
    )


def add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--by`, `--detach`, `--data` and `--json`."""
    add_queueing_arguments(parser)
    add_data_and_json_arguments(parser)


def queue_and_follow(arguments: argparse.Namespace, action: str, params: dict[str, Any]) -> int:
    """Request the deployment and, without `--detach`, follow it. Return the exit status."""
    deployment = request_action(arguments, action, {**params, "by": arguments.by})
    if not arguments.detach:
        return follow_deployment(arguments, deployment["id"])
    is_waiting = deployment["status"] == DeploymentStatus.AWAITING_APPROVAL
    if arguments.json:
        print(json.dumps(deployment))
    elif is_waiting:
        print(describe_waiting(deployment))
    else:
        number = deployment["id"]
        print(qualify_commands(f"Deployment {number} is queued; `pharos logs -f {number}` follows it."))
    return AWAITS_APPROVAL if is_waiting else 0


def follow_deployment(arguments: argparse.Namespace, number: int, lines: int = MAX_LINES) -> int:
    """Show the last `lines` of the log and new ones, until the deployment is final or waits for a second person.

    Returns the exit status: 0 if it succeeded, `AWAITS_APPROVAL` if it waits, `INTERRUPTED` after Ctrl-C, which does
    not end the deployment. For a failure, returns 1 with `--json` and raises `CommandFailed` without.
    """
    try:
        return asyncio.run(_follow(arguments, number, lines))
    except KeyboardInterrupt:
        print(
            qualify_commands(
                f"\nDeployment {number} is still in progress: `pharos logs -f {number}` follows it, `pharos cancel "
                f"{number}` cancels it."
            ),
            file=sys.stderr,
        )
        return INTERRUPTED


async def _follow(arguments: argparse.Namespace, number: int, lines: int) -> int:
    async with open_client(arguments) as request:
        with FollowScreen(as_json=arguments.json) as screen:
            deployment = await _follow_until_final(request, screen, number, lines)
    return report_outcome(arguments, deployment, screen.last_system_line)


async def _follow_until_final(
    request: RequestAction, screen: FollowScreen, number: int, lines: int
) -> Deployment:
    """Return the deployment once it is final or waits for a second person."""
    params: dict[str, Any] = {"id": number, "lines": lines}
    began, is_warned, outage = time.monotonic(), False, OutageNotice()
    while True:
        try:
            update = await request("deployments/follow", params)
        except InstallationUnreachable as error:
            if "after" not in params:
                raise
            outage.report(error)
        else:
            outage.end()
            deployment: Deployment = update["deployment"]
            screen.show(update)
            params = {
                "id": number,
                "after": update["lines"][-1]["id"] if update["lines"] else params.get("after", 0),
            }
            if len(update["lines"]) == MAX_LINES:
                continue
            if deployment["status"] in (*FINAL_STATUSES, DeploymentStatus.AWAITING_APPROVAL):
                return deployment
            if _lacks_deployer(update) and not is_warned and time.monotonic() - began > _WARN_AFTER_SECONDS:
                is_warned = True
                screen.warn("No deployer seems to be running: start `pharos up` or `pharos deployer`.")
        await asyncio.sleep(_POLL_SECONDS)


def _lacks_deployer(update: dict[str, Any]) -> bool:
    """Return True if the deployment is queued and no deployer runs."""
    return update["deployment"]["status"] == DeploymentStatus.QUEUED and not update["has_deployer"]


def report_outcome(arguments: argparse.Namespace, deployment: Deployment, last_system_line: str) -> int:
    """Print the outcome in one sentence, or the deployment as JSON. Return the exit status.

    Without `--json`, raises `CommandFailed` if the deployment neither succeeded nor waits.
    """
    status = deployment["status"]
    if arguments.json:
        print(json.dumps(deployment))
    elif status == DeploymentStatus.AWAITING_APPROVAL:
        print(describe_waiting(deployment))
    elif status == DeploymentStatus.SUCCEEDED:
        print(_describe_success(deployment))
    else:
        raise CommandFailed(_describe_failure(deployment, last_system_line))
    if status == DeploymentStatus.AWAITING_APPROVAL:
        return AWAITS_APPROVAL
    return 0 if status == DeploymentStatus.SUCCEEDED else 1


def describe_waiting(deployment: Deployment) -> str:
    """Return the commands with which a second person reviews and approves the deployment."""
    number = deployment["id"]
    return qualify_commands(
        f"Deployment {number} waits for a second person. Look at it with `pharos approvals`, then approve it with "
        f"`pharos approve deployment {number} --by EMAIL`."
    )


def _describe_success(deployment: Deployment) -> str:
    name, elapsed = f"Deployment {deployment['id']}", format_elapsed(deployment["seconds"])
    if not deployment["is_live"]:
        return f"{name} has succeeded after {elapsed}; it is not live any more."
    at = f" at {deployment['address']}" if deployment["address"] else ""
    return f"{name} is live{at} after {elapsed}."


def _describe_failure(deployment: Deployment, last_system_line: str) -> str:
    name = f"Deployment {deployment['id']}"
    if deployment["status"] == DeploymentStatus.FAILED:
        elapsed = format_elapsed(deployment["seconds"])
        return f"{name} has failed after {elapsed}: {last_system_line or 'its log says no more.'}"
    if deployment["status"] == DeploymentStatus.REJECTED and last_system_line:
        return f"{name} is rejected. {last_system_line}"
    return f"{name} is {deployment['status']}."


def show_deployment_log(arguments: argparse.Namespace, number: int, lines: int | None) -> int:
    """Print the last lines of the log; with `--follow` also new ones and the outcome. Return the exit status."""
    max_lines = lines or MAX_LINES
    if arguments.follow:
        return follow_deployment(arguments, number, max_lines)
    update = request_action(arguments, "deployments/follow", {"id": number, "lines": max_lines})
    if arguments.json:
        names = ("lines", "truncated", "deployment")
        print(json.dumps({name: update[name] for name in names}))
        return 0
    if update["truncated"] and lines is None:
        print(f"pharos: these are the last {max_lines:,} lines.", file=sys.stderr)
    with FollowScreen(as_json=False, is_live=False) as screen:
        screen.show(update)
    return 0
