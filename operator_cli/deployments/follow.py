"""Report a queued deployment, follow it until it is final, and print its log."""

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from operator_cli.api.client import Api
from operator_cli.api.event_stream import Event
from operator_cli.api.names import list_environments
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_client_arguments
from operator_cli.deployments.numbers import explaining_deployment
from operator_cli.durations import format_elapsed
from operator_cli.errors import AWAITS_APPROVAL, FAILED, INTERRUPTED, CommandFailed
from operator_cli.messages import print_result, qualify_commands
from pipeline_contracts.deploy_states import FINAL_STATUSES, DeploymentStatus

if TYPE_CHECKING:
    from operator_cli.deployments.follow_screen import FollowScreen

MAX_LINES: Final = 1000
"""The number of last lines of a log that the API returns."""
_NEWEST: Final = 100
_POLL_SECONDS: Final = 1.0
_WARN_AFTER_SECONDS: Final = 10.0

Deployment = Mapping[str, Any]
"""A deployment with `id`, `environment_id`, `status` and `created_at`."""


def add_queueing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--detach`."""
    parser.add_argument(
        "--detach", action="store_true", help="queue the deployment, and do not wait for its end"
    )


def add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--detach` and the arguments of each command of the API."""
    add_queueing_arguments(parser)
    add_client_arguments(parser)


def report_queued(api: Api, arguments: argparse.Namespace, deployment: Deployment) -> int:
    """Follow a deployment that was just queued, or report it with `--detach`. Return the exit status."""
    if not arguments.detach:
        return follow_deployment(api, arguments, deployment, elapsed=0.0)
    print_result(arguments, deployment, _show_queued)
    return AWAITS_APPROVAL if _waits(deployment) else 0


def _show_queued(deployment: Deployment) -> None:
    if _waits(deployment):
        print(_describe_waiting(deployment))
    else:
        number = deployment["id"]
        print(qualify_commands(f"Deployment {number} is queued; `pharos logs -f {number}` follows it."))


def _waits(deployment: Deployment) -> bool:
    return bool(deployment["status"] == DeploymentStatus.AWAITING_APPROVAL)


def follow_deployment(
    api: Api,
    arguments: argparse.Namespace,
    deployment: Deployment,
    lines: int = MAX_LINES,
    *,
    elapsed: float | None = None,
) -> int:
    """Show the last `lines` of the log and new ones, until the deployment is final or waits for a second person.

    `elapsed`: the seconds since it began; None to compute them from its times. Returns the exit status: 0 if it
    succeeded, `AWAITS_APPROVAL` if it waits, `INTERRUPTED` after Ctrl-C, which does not end the deployment. For a
    failure, returns 1 with `--json` and raises `CommandFailed` without.
    """
    # Imported here and below: rich is slow to import, and `--detach` needs none of it.
    from operator_cli.deployments.follow_screen import FollowScreen

    number = deployment["id"]
    try:
        with FollowScreen(as_json=arguments.json, is_quiet=arguments.quiet) as screen:
            if screen.is_live:
                screen.begin(_describe_target(api, deployment), _elapsed(api, deployment, elapsed))
            watch = _Watch(api, screen, deployment)
            watch.start()
            try:
                _follow_log(api, screen, number, lines)
            finally:
                watch.end()
    except KeyboardInterrupt:
        print(
            qualify_commands(
                f"\nDeployment {number} is still in progress: `pharos logs -f {number}` follows it, `pharos cancel "
                f"{number}` cancels it."
            ),
            file=sys.stderr,
        )
        return INTERRUPTED
    return _report_outcome(api, arguments, number, screen.last_system_line)


def _follow_log(api: Api, screen: "FollowScreen", number: int, lines: int) -> None:
    """Show the log until the deployment is final or waits for a second person."""
    # The first lines of the stream, which a status follows.
    first: list[Any] | None = []
    with closing(api.stream("deployments", number, "log", ends_after=_is_final)) as events:
        for event in events:
            if event.name == "line":
                if first is None:
                    screen.show([event.data])
                else:
                    first.append(event.data)
            elif event.name == "status":
                screen.show((first or [])[-lines:])
                first = None
                screen.update(event.data["status"])
                if event.data["status"] == DeploymentStatus.AWAITING_APPROVAL:
                    return


def _is_final(event: Event) -> bool:
    return event.name == "status" and event.data["status"] in FINAL_STATUSES


class _Watch(threading.Thread):
    """Reads data that the log lacks, concurrently and over its own connection: the step of the deployment, and whether
    any deployer has its environment."""

    def __init__(self, api: Api, screen: "FollowScreen", deployment: Deployment) -> None:
        super().__init__(daemon=True)
        self._target = api.target
        self._screen = screen
        self._deployment = deployment
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop the thread without waiting for a request in progress."""
        self._ended.set()

    def run(self) -> None:
        warn_at = time.monotonic() + _WARN_AFTER_SECONDS
        is_warned = False
        with Api(self._target) as api:
            while not self._ended.wait(_POLL_SECONDS):
                is_late = not is_warned and time.monotonic() > warn_at
                if not self._screen.is_live and not is_late:
                    continue
                processes = self._read_processes(api)
                if processes is None or self._ended.is_set():
                    continue
                active = processes["active_deployment"]
                if active is not None and active["id"] == self._deployment["id"]:
                    self._screen.update(active["status"], active["step"])
                if is_late:
                    is_warned = True
                    self._warn(processes)

    def _read_processes(self, api: Api) -> dict[str, Any] | None:
        try:
            return _read_processes(api, self._deployment)
        except CommandFailed:
            # The stream of the log reports outages.
            return None

    def _warn(self, processes: Mapping[str, Any]) -> None:
        deployer = processes["deployer"]
        is_served = deployer is not None and deployer["responds"]
        if self._screen.status == DeploymentStatus.QUEUED and not is_served:
            self._screen.warn(
                "No deployer has begun yet. If none runs, start `pharos up` or `pharos deployer`."
            )


def _read_processes(api: Api, deployment: Deployment) -> dict[str, Any] | None:
    """Return the processes of the deployment's environment; None if the environment was removed."""
    if deployment["environment_id"] is None:
        return None
    try:
        processes: dict[str, Any] = api.get("environments", deployment["environment_id"], "processes")
    except ApiRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    return processes


def _describe_target(api: Api, deployment: Deployment) -> str:
    number, environment_id = deployment["id"], deployment["environment_id"]
    path = next((each.path for each in list_environments(api) if each.id == environment_id), "(removed)")
    return f"Deployment {number} to {path}"


def _elapsed(api: Api, deployment: Deployment, known: float | None) -> float:
    """Return the seconds since the deployment began; 0 if unknown."""
    began = None if known is not None else _find_start(api, deployment)
    if began is None:
        return known or 0.0
    # Clocks may differ.
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(began)).total_seconds())


def _find_start(api: Api, deployment: Deployment) -> str | None:
    """Return when the deployment began. If it waited for a second person, this is the time of the approval.

    None if it is not among the newest of its environment.
    """
    if deployment["environment_id"] is None:
        return None
    try:
        newest = api.get_all("environments", deployment["environment_id"], "deployments", limit=_NEWEST)
    except ApiRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    return next(
        (
            max(filter(None, (row["created_at"], row["decided_at"])))
            for row in newest
            if row["id"] == deployment["id"]
        ),
        None,
    )


def _report_outcome(api: Api, arguments: argparse.Namespace, number: int, last_system_line: str) -> int:
    """Print the outcome in one sentence, or the deployment with its address as JSON. Return the exit status.

    Without `--json`, raises `CommandFailed` if the deployment neither succeeded nor waits.
    """
    deployment = api.get("deployments", number)
    processes = _read_processes(api, deployment)
    live = None if processes is None else processes["live"]
    outcome = {
        **deployment,
        "address": None if processes is None else processes["address"],
        "is_live": live is not None and live["deployment_id"] == number,
    }
    is_successful = deployment["status"] == DeploymentStatus.SUCCEEDED
    if not (arguments.json or is_successful or _waits(deployment)):
        raise CommandFailed(_describe_failure(api, deployment, last_system_line))
    print_result(arguments, outcome, lambda _: print(_describe_outcome(api, outcome)))
    if _waits(deployment):
        return AWAITS_APPROVAL
    return 0 if is_successful else FAILED


def _describe_waiting(deployment: Deployment) -> str:
    """Return how a second person reviews and approves the deployment."""
    number = deployment["id"]
    return qualify_commands(
        f"Deployment {number} waits for a second person, who reviews it with `pharos approvals` and approves it with "
        f"`pharos approve deployment {number}`."
    )


def _describe_outcome(api: Api, outcome: Deployment) -> str:
    """Describe a deployment that has succeeded, or waits."""
    if _waits(outcome):
        return _describe_waiting(outcome)
    name, after = f"Deployment {outcome['id']}", _describe_duration(api, outcome)
    if not outcome["is_live"]:
        return f"{name} has succeeded{after}; it is not live any more."
    at = f" at {outcome['address']}" if outcome["address"] else ""
    return f"{name} is live{at}{after}."


def _describe_failure(api: Api, deployment: Deployment, last_system_line: str) -> str:
    name = f"Deployment {deployment['id']}"
    if deployment["status"] == DeploymentStatus.FAILED:
        after = _describe_duration(api, deployment)
        return f"{name} has failed{after}: {last_system_line or 'its log has no further details.'}"
    if deployment["status"] == DeploymentStatus.REJECTED and last_system_line:
        return f"{name} is rejected. {last_system_line}"
    return f"{name} is {deployment['status']}."


def _describe_duration(api: Api, deployment: Deployment) -> str:
    """Return ` after 3.2 s`; empty if unknown."""
    began = _find_start(api, deployment)
    if began is None or deployment["finished_at"] is None:
        return ""
    duration = datetime.fromisoformat(deployment["finished_at"]) - datetime.fromisoformat(began)
    return f" after {format_elapsed(duration.total_seconds())}"


def show_deployment_log(api: Api, arguments: argparse.Namespace, number: int, lines: int | None) -> int:
    """Print the last lines of the log; with `--follow` also new ones and the outcome. Return the exit status."""
    if arguments.follow:
        with explaining_deployment(number):
            deployment = api.get("deployments", number)
        return follow_deployment(api, arguments, deployment, lines or MAX_LINES)
    with explaining_deployment(number):
        log = api.get("deployments", number, "log")
    if lines is not None and len(log["lines"]) > lines:
        log |= {"lines": log["lines"][-lines:], "truncated": True}
    if arguments.json:
        print(json.dumps(log))
        return 0
    if log["truncated"] and lines is None:
        print(f"pharos: these are the last {MAX_LINES:,} lines.", file=sys.stderr)
    from operator_cli.deployments.follow_screen import FollowScreen

    with FollowScreen(as_json=False, shows_status=False) as screen:
        screen.show(log["lines"])
    return 0
