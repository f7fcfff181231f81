"""Environments to deploy to through commands, and deployments that are carried out row by row."""

import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import carried_out
from tests.support.commands import Run, ask

ASKER = "asker@follows.example"
Work = Callable[[AsyncSession, datetime], Awaitable[Any]]
Write = Callable[[Work], Any]
"""Does some of a deployer's work in a database."""
Start = Callable[..., "subprocess.Popen[str]"]
"""Starts a command that goes on by itself."""


def make_place(pharos: Run, *settings: str) -> str:
    """Make an environment of its own in a project with a repository that is not there.

    With settings, `ASKER` may deploy to it.
    """
    slug = f"follows-{uuid.uuid4().hex[:8]}"
    ask(pharos, "project", "create", slug)
    ask(pharos, "environment", "create", "Live", "--type", "production", "--project", slug)
    ask(pharos, "repository", "connect", "/srv/shop.git", "--project", slug)
    if settings:
        if ASKER not in {person["email"] for person in ask(pharos, "person", "list")}:
            ask(pharos, "person", "add", ASKER, "--name", "Asker")
        ask(pharos, "project", "grant", slug, ASKER, "--role", "deployer")
        ask(pharos, "environment", "set", f"{slug}/live", *settings)
    return f"{slug}/live"


def environment_number(pharos: Run, place: str) -> int:
    """The environment's ID in its tables."""
    number: int = ask(pharos, "environment", "show", place)["number"]
    return number


def queued(pharos: Run, place: str) -> int:
    """The number of the environment's active deployment, once there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        active = ask(pharos, "environment", "show", place)["active_deployment"]
        if active is not None:
            number: int = active["id"]
            return number
    raise AssertionError("nothing was queued")


def carry_out(write: Write, number: int) -> None:
    """Bring a deployment to its end."""

    async def work(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, number, now)
        await carried_out.bring_live(session, number, now)

    write(work)


def deploy(pharos: Run, write: Write, place: str) -> int:
    """A deployment that has succeeded."""
    number: int = ask(pharos, "deploy", place, "--detach")["id"]
    carry_out(write, number)
    return number
