"""A platform, a Redis, and workers of queue libraries in separate processes."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.clients.python.conftest import RunningPlatform
from tests.support.waits import wait_until

_ROOT = Path(__file__).parents[4]


@dataclass
class WatchedQueue:
    """A queue monitor, and workers that report to it."""

    platform: RunningPlatform
    redis_url: str
    folder: Path
    number: int
    key: str
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PHAROS_")},
            "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'clients' / 'python' / 'src'}",
            "REDIS_URL": self.redis_url,
            "PHAROS_URL": self.platform.url,
            "PHAROS_QUEUES": f"jobs={self.number}:{self.key}",
            "PHAROS_INGEST_KEY": self.platform.key,
            "JOBS_FOLDER": str(self.folder),
        }

    def start_worker(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start `python -m …` as a worker in a new process group."""
        with open(self.folder / "worker.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=_ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def kill_all(self) -> None:
        """Kill the workers with all their children, as a power failure does."""
        for process in self.processes:
            # The group may outlive its first process.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def show(self) -> Any:
        """Return the queue, with its workers under `worker_list`."""
        queue = ("monitors", "queues", str(self.number))
        return {**self.platform.get(*queue), "worker_list": self.platform.get(*queue, "workers")}

    def wait_for(self, condition: Callable[[Any], object]) -> Any:
        """Wait until the API's representation of the queue meets the condition; return it."""
        wait_until(lambda: condition(self.show()), describe=lambda: (self.show(), self.log()))
        return self.show()

    def wait_for_figures(self, **figures: int) -> Any:
        return self.wait_for(lambda shown: {name: shown[name] for name in figures} == figures)

    def wait_for_workers(self, **counts: int) -> Any:
        """Wait until the queue has this many workers of each status, and no others."""
        expected = {"idle": 0, "busy": 0, "stopped": 0, "lost": 0, **counts}
        return self.wait_for(lambda shown: shown["workers"] == expected)

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]

    def release(self, job: str) -> None:
        """Create the file that the job of this name waits for, so that the job ends."""
        (self.folder / job).touch()

    def let_six_minutes_pass(self) -> None:
        """Move the last reports of all workers of the queue into the past."""
        with contextlib.closing(
            sqlite3.connect(self.platform.process.data / "control.sqlite", timeout=30)
        ) as database:
            database.execute(
                "UPDATE queue_workers SET received_ms = received_ms - 360000 WHERE queue_id = ?",
                (self.number,),
            )
            database.commit()


@pytest.fixture
def queue(platform: RunningPlatform, redis_url: str, tmp_path: Path) -> Iterator[WatchedQueue]:
    created = platform.run_json("queue", "create", uuid.uuid4().hex)
    # Tests share the databases of the run's Redis, so these tests use a separate one.
    url = redis_url.rsplit("/", 1)[0] + "/9"
    import redis

    with redis.Redis.from_url(url) as client:
        client.flushdb()
    watched = WatchedQueue(platform, url, tmp_path, created["id"], created["key"]["key"])
    try:
        yield watched
    finally:
        watched.kill_all()
