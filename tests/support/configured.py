"""Projects to which tests apply configuration documents through commands."""

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
"""Command arguments: the file of a document, and the option with the file of its bindings."""


def make_project(pharos: RunCommand) -> str:
    """Create an empty project with a unique name; return its slug."""
    slug = f"config-{uuid.uuid4().hex[:8]}"
    run_json(pharos, "project", "create", slug)
    return slug


def write_document(folder: Path, text: str = DOCUMENT) -> Given:
    """Write the document and its bindings, with `SECRET` for `url`, to the folder; return the arguments."""
    document, bindings = folder / "shop.yaml", folder / "shop.env"
    document.write_text(text)
    bindings.write_text(f"url={SECRET}\n")
    return str(document), "--bind-file", str(bindings)


def applied(pharos: RunCommand, project: str) -> Any:
    """Wait until the project has a configuration run; return the newest one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if listed := run_json(pharos, "config", "applications", "--project", project):
            return run_json(pharos, "config", "show", str(listed[0]["id"]))
        time.sleep(0.05)
    raise AssertionError("no configuration run was created")


async def carry_out(database_url: str) -> None:
    """Execute all configuration runs in this database, sealed with `KEY`, until each has ended."""
    engine = open_engine(database_url)
    sessions = open_sessions(engine)
    # Longer than a busy machine can pause: a worker that loses the lease begins the step again.
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
            raise AssertionError("the configuration run did not end within 120 s")
    await engine.dispose()
