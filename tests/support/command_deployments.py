"""Environments to deploy to through commands, and deployments that are carried out row by row."""

import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import deployment_rows
from tests.support.commands import RunCommand, run_json

REQUESTER = "asker@follows.example"
ChangeRows = Callable[[AsyncSession, datetime], Awaitable[Any]]
WriteRows = Callable[[ChangeRows], Any]
"""Does some of a deployer's work in a database."""
StartCommand = Callable[..., "subprocess.Popen[str]"]
"""Starts a command that goes on by itself."""


def make_environment(pharos: RunCommand, *settings: str) -> str:
    """Make an environment of its own in a project with a repository that is not there.

    With settings, `ASKER` may deploy to it.
    """
    slug = f"follows-{uuid.uuid4().hex[:8]}"
    run_json(pharos, "project", "create", slug)
    run_json(pharos, "environment", "create", "Live", "--type", "production", "--project", slug)
    run_json(pharos, "repository", "connect", "/srv/shop.git", "--project", slug)
    if settings:
        if REQUESTER not in {person["email"] for person in run_json(pharos, "person", "list")}:
            run_json(pharos, "person", "add", REQUESTER, "--name", "Asker")
        run_json(pharos, "project", "grant", slug, REQUESTER, "--role", "deployer")
        run_json(pharos, "environment", "set", f"{slug}/live", *settings)
    return f"{slug}/live"


def read_environment_number(pharos: RunCommand, place: str) -> int:
    """The environment's ID in its tables."""
    number: int = run_json(pharos, "environment", "show", place)["number"]
    return number


def wait_queued(pharos: RunCommand, place: str) -> int:
    """The number of the environment's active deployment, once there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        active = run_json(pharos, "environment", "show", place)["active_deployment"]
        if active is not None:
            number: int = active["id"]
            return number
    raise AssertionError("nothing was queued")


def finish_deployment(write: WriteRows, number: int) -> None:
    """Bring a deployment to its end."""

    async def work(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, number, now)
        await deployment_rows.complete_deployment(session, number, now)

    write(work)


def deploy_and_finish(pharos: RunCommand, write: WriteRows, place: str) -> int:
    """A deployment that has succeeded."""
    number: int = run_json(pharos, "deploy", place, "--detach")["id"]
    finish_deployment(write, number)
    return number
