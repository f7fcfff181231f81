"""BullMQ on a real Redis: the figures of a queue, and workers that run, stop and are killed."""

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.javascript_client import node_environment
from tests.support.platform_process import PlatformProcess
from tests.support.waits import wait_until

_FIVE_MINUTES_MS = 300_000
_HEAD = """
import { Queue, Worker } from 'bullmq'
import { watchQueue, watchWorker } from 'pharos-client/bullmq'
const connection = { url: process.env.REDIS_URL }
const name = process.env.QUEUE_NAME
"""


class Figures:
    """A queue of Pharos, and the environment of programs that report it."""

    def __init__(self, platform: PlatformProcess, redis_url: str, name: str) -> None:
        created = _run_json(platform, "queue", "create", name)
        self.platform = platform
        self.id = created["id"]
        self.variables = {
            "PHAROS_URL": f"http://127.0.0.1:{platform.port}/api/",
            "PHAROS_QUEUES": f"other=1:phr_mon_x,{name}={self.id}:{created['key']['key']}",
            "QUEUE_NAME": name,
            "REDIS_URL": redis_url,
        }

    def show(self) -> Any:
        path = f"/api/v1/monitors/queues/{self.id}"
        headers = {"Authorization": f"Bearer {self.platform.credentials['api_token']}"}
        shown = self.platform.request("GET", path, headers=headers).json["data"]
        workers = self.platform.request("GET", f"{path}/workers", headers=headers).json["data"]
        return {**shown, "worker_list": workers}

    def counts(self) -> dict[str, int]:
        shown = self.show()
        return {name: shown[name] for name in ("pending", "delayed", "reserved", "failed")}

    def statuses(self) -> list[str]:
        return sorted(worker["status"] for worker in self.show()["worker_list"])


def _run_json(platform: PlatformProcess, *command: str) -> Any:
    done = platform.run(*command, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture
def figures(platform: PlatformProcess, redis_url: str, request: pytest.FixtureRequest) -> Figures:
    return Figures(platform, redis_url, request.node.name.replace("_", "-")[:60])


@contextmanager
def running(app: Path, file: str, source: str, figures: Figures) -> Iterator["subprocess.Popen[str]"]:
    """Yield a program; kill it at the end."""
    (app / file).write_text(_HEAD + source)
    process = subprocess.Popen(
        ["node", file],
        cwd=app,
        env=node_environment(**figures.variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _let_five_minutes_pass(platform: PlatformProcess, queue: int) -> None:
    """Move the last reports of the queue's workers back in time."""
    with closing(sqlite3.connect(platform.data / "control.sqlite", timeout=30)) as database:
        database.execute(
            "UPDATE queue_workers SET received_ms = received_ms - ? WHERE queue_id = ?",
            (_FIVE_MINUTES_MS, queue),
        )
        database.commit()


def test_the_figures_of_a_queue(app: Path, figures: Figures) -> None:
    source = """
        const queue = new Queue(name, { connection })
        const watch = watchQueue(queue, { intervalMs: 1000 })
        await queue.add('old', {}, { timestamp: Date.now() - 90_000 })
        await queue.addBulk(Array.from({ length: 4 }, () => ({ name: 'new', data: {} })))
        await queue.add('urgent', {}, { priority: 1 })
        await queue.addBulk([1, 2].map(() => ({ name: 'later', data: {}, opts: { delay: 3_600_000 } })))
        process.stdin.once('data', async () => {
          // Two fail, one is being worked on, and the other three wait.
          let begun = 0
          const worker = new Worker(name, async () => {
            begun += 1
            if (begun > 2) return new Promise(() => {})
            throw new Error('no')
          }, { connection })
        })
    """
    with running(app, "queue.mjs", source, figures) as process:
        wait_until(lambda: figures.counts() == {"pending": 6, "delayed": 2, "reserved": 0, "failed": 0})
        assert 90 <= figures.show()["oldest_wait_seconds"] < 200
        assert process.stdin is not None
        process.stdin.write("work\n")
        process.stdin.flush()
        wait_until(lambda: figures.counts() == {"pending": 3, "delayed": 2, "reserved": 1, "failed": 2})
    rows = figures.platform.query(
        f"SELECT count() AS n, uniq(snapshot_id) AS ids FROM pharos.queue_snapshots WHERE queue_id = {figures.id}"
    )
    assert rows[0]["n"] == rows[0]["ids"] >= 2


_WORKER = """
    const queue = new Queue(name, { connection })
    const worker = new Worker(name, () => new Promise((resolve) => process.stdin.once('data', resolve)), { connection })
    const watch = watchWorker(worker)
    await worker.waitUntilReady()
    await queue.add('job', {})
    process.once('SIGTERM', async () => {
      await worker.close()
      await watch.close()
      process.exit()
    })
"""


def test_a_worker_is_busy_and_idle_and_stops(app: Path, figures: Figures) -> None:
    with running(app, "worker.mjs", _WORKER, figures) as process:
        wait_until(lambda: figures.statuses() == ["busy"])
        (worker,) = figures.show()["worker_list"]
        assert worker["job_id"]
        assert process.stdin is not None
        process.stdin.write("done\n")
        process.stdin.flush()
        wait_until(lambda: figures.statuses() == ["idle"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        wait_until(lambda: figures.statuses() == ["stopped"])


def test_a_worker_ends_jobs_that_neither_complete_nor_fail(app: Path, figures: Figures) -> None:
    """BullMQ emits no worker event when the worker has lost the lock of a job, or when the job is delayed."""
    source = """
        import { EventEmitter, once } from 'node:events'
        import { DelayedError } from 'bullmq'
        import { Redis } from 'ioredis'
        const steps = new EventEmitter()
        process.stdin.on('data', (data) => steps.emit(String(data).trim()))
        const redis = new Redis(process.env.REDIS_URL)
        const queue = new Queue(name, { connection })
        const worker = new Worker(name, async (job, token) => {
          await once(steps, 'end')
          if (job.name === 'lost') return redis.del(queue.toKey(`${job.id}:lock`))
          await job.moveToDelayed(Date.now() + 3_600_000, token)
          throw new DelayedError()
        // The worker itself would take the lost job up again.
        }, { connection, skipStalledCheck: true })
        worker.on('error', (error) => console.log(error.message))
        worker.on('completed', () => console.log('completed')).on('failed', () => console.log('failed'))
        watchWorker(worker)
        await worker.waitUntilReady()
        await queue.add('lost', {})
        await once(steps, 'next')
        await queue.add('delayed', {})
    """
    with running(app, "worker.mjs", source, figures) as process:
        assert process.stdin is not None and process.stdout is not None
        for _job in ("lost", "delayed"):
            wait_until(lambda: figures.statuses() == ["busy"])
            process.stdin.write("end\n")
            process.stdin.flush()
            wait_until(lambda: figures.statuses() == ["idle"])
            process.stdin.write("next\n")
            process.stdin.flush()
        process.kill()
        printed = process.stdout.read().splitlines()
    assert printed and all(line.startswith("Missing lock") for line in printed)


def test_a_killed_worker_shows_as_lost_until_it_starts_again(app: Path, figures: Figures) -> None:
    """The restarted worker gets the same ID: its numbers continue above those of the killed process."""
    with running(app, "worker.mjs", _WORKER, figures) as process:
        wait_until(lambda: figures.statuses() == ["busy"])
        process.kill()
        process.wait()
    (killed,) = figures.show()["worker_list"]
    _let_five_minutes_pass(figures.platform, figures.id)
    wait_until(lambda: figures.statuses() == ["lost"])
    assert figures.show()["workers"] == {"idle": 0, "busy": 0, "stopped": 0, "lost": 1}
    with running(app, "worker.mjs", _WORKER, figures):
        wait_until(lambda: figures.statuses() == ["busy"])
        (again,) = figures.show()["worker_list"]
        assert again["worker_id"] == killed["worker_id"]
        assert again["sequence"] > killed["sequence"]
