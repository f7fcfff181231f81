"""Projects to which configuration documents are applied through commands."""

import asyncio
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select

from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing import SealingKeys
from control_domain.tables.configuration import ConfigurationRun
from control_workers.configuration_runs import ConfigurationRunWorker, running_configuration_worker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.commands import RunCommand, run_json

KEY = "a secret of thirty-two characters"
SECRET = "hunter2"
DOCUMENT = """\
version: 2
environments:
  live:
    type: production
    variables: {URL: "${url}"}
    heartbeats: {nightly: {cron: "0 3 * * *", grace: 30m}}
    queues: {default: {}}
"""
Given = tuple[str, ...]
"""Arguments: a document's file, and what binds the names in it."""


def make_project(pharos: RunCommand) -> str:
    """The slug of a project of its own, in which there is nothing."""
    slug = f"config-{uuid.uuid4().hex[:8]}"
    run_json(pharos, "project", "create", slug)
    return slug


def write_document(folder: Path, text: str = DOCUMENT) -> Given:
    """The text as a file in the folder, with `SECRET` for `url`."""
    document, bindings = folder / "shop.yaml", folder / "shop.env"
    document.write_text(text)
    bindings.write_text(f"url={SECRET}\n")
    return str(document), "--bind-file", str(bindings)


def applied(pharos: RunCommand, project: str) -> Any:
    """The project's newest application, once there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if listed := run_json(pharos, "config", "applications", "--project", project):
            return run_json(pharos, "config", "show", str(listed[0]["id"]))
        time.sleep(0.05)
    raise AssertionError("nothing was applied")


async def carry_out(database_url: str) -> None:
    """What was applied in this database, with `KEY`; all of it, or up to what fails."""
    engine = open_engine(database_url)
    sessions = open_sessions(engine)
    # Longer than a machine stands still: whoever loses the lease begins the operation once more.
    lease = timedelta(minutes=5)
    worker = ConfigurationRunWorker(sessions, InProcessKeyDirectory(), SealingKeys.read(KEY), lease=lease)
    running = select(ConfigurationRun.id).where(ConfigurationRun.status == "running")
    async with running_configuration_worker(worker, is_alone=True):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            async with sessions() as session:
                if not (await session.execute(running)).all():
                    break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("it was not carried out")
    await engine.dispose()
