"""Queues a deployment and follows it until it is final: what `pharos deploy`, `rollback` and `promote` share."""

import argparse
import asyncio
import json
import sys
import time
from typing import Any

from operator_cli.ask import Ask, add_ask_arguments, ask, asking
from operator_cli.failure import CommandFailed, NotReached
from operator_cli.follow_screen import FollowScreen, seconds_told
from operator_cli.still_waiting import StillWaiting
from operator_cli.typed_commands import typed_commands
from pipeline_contracts.deploy_states import FINAL_STATUSES, DeploymentStatus

WAITS = 3
"""The exit status where a second person has to agree first."""
INTERRUPTED = 130
MOST_LINES = 1000
_POLL_SECONDS = 0.3
_QUEUED_SECONDS = 5.0

Deployment = dict[str, Any]


def add_queueing_arguments(parser: argparse.ArgumentParser) -> None:
    """`--by` and `--detach`."""
    parser.add_argument(
        "--by", metavar="EMAIL", help="who asks for it; somebody who may deploy in the project"
    )
    parser.add_argument(
        "--detach", action="store_true", help="only queue it; do not wait until it is finished"
    )


def add_following_arguments(parser: argparse.ArgumentParser) -> None:
    """The same, `--data` and `--json`."""
    add_queueing_arguments(parser)
    add_ask_arguments(parser)


def queue_and_follow(arguments: argparse.Namespace, action: str, wanted: dict[str, Any]) -> int:
    """Ask for the deployment and, unless `--detach` is given, follow it; gives the exit status."""
    deployment = ask(arguments, action, {**wanted, "by": arguments.by})
    if not arguments.detach:
        return follow_deployment(arguments, deployment["id"])
    waits = deployment["status"] == DeploymentStatus.AWAITING_APPROVAL
    if arguments.json:
        print(json.dumps(deployment))
    elif waits:
        print(told_waiting(deployment))
    else:
        number = deployment["id"]
        print(typed_commands(f"Deployment {number} is queued; `pharos logs -f {number}` follows it."))
    return WAITS if waits else 0


def follow_deployment(arguments: argparse.Namespace, number: int, lines: int = MOST_LINES) -> int:
    """Show the last `lines` of its log, and each that comes, until it is final or waits for a second person.

    Gives 0, 3 where it waits, 1 with `--json` where it has failed; else raises `CommandFailed` for that. Ctrl-C ends
    the following only.
    """
    try:
        return asyncio.run(_follow(arguments, number, lines))
    except KeyboardInterrupt:
        print(
            typed_commands(
                f"\nDeployment {number} is still in progress: `pharos logs -f {number}` follows it, `pharos cancel "
                f"{number}` cancels it."
            ),
            file=sys.stderr,
        )
        return INTERRUPTED


async def _follow(arguments: argparse.Namespace, number: int, lines: int) -> int:
    async with asking(arguments) as ask_again:
        with FollowScreen(as_json=arguments.json) as screen:
            deployment = await _follow_until_final(ask_again, screen, number, lines)
    return tell_end(arguments, deployment, screen.last_words)


async def _follow_until_final(ask_again: Ask, screen: FollowScreen, number: int, lines: int) -> Deployment:
    """The deployment as it is in the end."""
    wanted: dict[str, Any] = {"id": number, "lines": lines}
    began, is_warned, waiting = time.monotonic(), False, StillWaiting()
    while True:
        try:
            seen = await ask_again("deployments/follow", wanted)
        except NotReached as failure:
            if "after" not in wanted:
                raise
            waiting.tell(failure)
        else:
            waiting.end()
            deployment: Deployment = seen["deployment"]
            screen.show(seen)
            wanted = {
                "id": number,
                "after": seen["lines"][-1]["id"] if seen["lines"] else wanted.get("after", 0),
            }
            if len(seen["lines"]) == MOST_LINES:
                continue
            if deployment["status"] in (*FINAL_STATUSES, DeploymentStatus.AWAITING_APPROVAL):
                return deployment
            if _is_left(seen) and not is_warned and time.monotonic() - began > _QUEUED_SECONDS:
                is_warned = True
                screen.warn("No deployer seems to be running: start `pharos up` or `pharos deployer`.")
        await asyncio.sleep(_POLL_SECONDS)


def _is_left(seen: dict[str, Any]) -> bool:
    """Whether nobody is there who would take it up."""
    return seen["deployment"]["status"] == DeploymentStatus.QUEUED and not seen["has_deployer"]


def tell_end(arguments: argparse.Namespace, deployment: Deployment, last_words: str) -> int:
    """How it has ended, in one sentence, or as JSON; gives the exit status. Raises `CommandFailed` where it is not
    live."""
    status = deployment["status"]
    if arguments.json:
        print(json.dumps(deployment))
    elif status == DeploymentStatus.AWAITING_APPROVAL:
        print(told_waiting(deployment))
    elif status == DeploymentStatus.SUCCEEDED:
        print(_told_success(deployment))
    else:
        raise CommandFailed(_told_failure(deployment, last_words))
    if status == DeploymentStatus.AWAITING_APPROVAL:
        return WAITS
    return 0 if status == DeploymentStatus.SUCCEEDED else 1


def told_waiting(deployment: Deployment) -> str:
    """Return the commands with which a second person reviews and approves the deployment."""
    number = deployment["id"]
    return typed_commands(
        f"Deployment {number} waits for a second person. Look at it with `pharos approvals`, then approve it with "
        f"`pharos approve deployment {number} --by EMAIL`."
    )


def _told_success(deployment: Deployment) -> str:
    told = f"Deployment {deployment['id']}"
    if not deployment["is_live"]:
        return f"{told} has succeeded after {seconds_told(deployment['seconds'])}; it is not live any more."
    at = f" at {deployment['address']}" if deployment["address"] else ""
    return f"{told} is live{at} after {seconds_told(deployment['seconds'])}."


def _told_failure(deployment: Deployment, last_words: str) -> str:
    told = f"Deployment {deployment['id']}"
    if deployment["status"] == DeploymentStatus.FAILED:
        return f"{told} has failed after {seconds_told(deployment['seconds'])}: {last_words or 'its log says no more.'}"
    if deployment["status"] == DeploymentStatus.REJECTED and last_words:
        return f"{told} is rejected. {last_words}"
    return f"{told} is {deployment['status']}."
