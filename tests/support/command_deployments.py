"""Environments that commands deploy to. No deployer runs: tests write the rows that finish a deployment."""

import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import deployment_rows
from tests.support.commands import RunCommand, run_json

ChangeRows = Callable[[AsyncSession, datetime], Awaitable[Any]]
WriteRows = Callable[[ChangeRows], Any]
"""Runs a `ChangeRows` in a transaction of the installation's database."""
StartCommand = Callable[..., "subprocess.Popen[str]"]
"""Starts a command and returns its process without waiting for the end."""


def make_environment(pharos: RunCommand, *settings: str) -> str:
    """Create an environment in a new project, with a repository path that does not exist; return its name.

    `settings` are arguments of `pharos environment set`.
    """
    slug = f"follows-{uuid.uuid4().hex[:8]}"
    run_json(pharos, "project", "create", slug)
    run_json(pharos, "environment", "create", "Live", "--type", "production", "--project", slug)
    run_json(pharos, "repository", "connect", "/srv/shop.git", "--project", slug)
    if settings:
        run_json(pharos, "environment", "set", f"{slug}/live", *settings)
    return f"{slug}/live"


def read_environment_number(pharos: RunCommand, environment: str) -> int:
    """Return the environment's ID in the database."""
    number: int = run_json(pharos, "environment", "show", environment)["number"]
    return number


def wait_queued(pharos: RunCommand, environment: str) -> int:
    """Wait for an active deployment of the environment; return its number."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        active = run_json(pharos, "environment", "show", environment)["active_deployment"]
        if active is not None:
            number: int = active["id"]
            return number
    raise AssertionError(f"no deployment to {environment} within 120 s")


def finish_deployment(write: WriteRows, number: int) -> None:
    """Let a deployment succeed."""

    async def complete(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, number, now)
        await deployment_rows.complete_deployment(session, number, now)

    write(complete)


def deploy_and_finish(pharos: RunCommand, write: WriteRows, environment: str) -> int:
    """Deploy by command and let the deployment succeed; return its number."""
    number: int = run_json(pharos, "deploy", environment, "--detach")["id"]
    finish_deployment(write, number)
    return number
