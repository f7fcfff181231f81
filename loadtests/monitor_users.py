"""Locust users that act as cron jobs and queues. They send signals of runs, many of them at the top of
the hour, and snapshots."""

import json
import os
import random
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from locust import between, constant_pacing, task
from locust.contrib.fasthttp import FastHttpUser

from pipeline_contracts.times import format_time

# Each entry has the form {"id": 1, "key": "phr_mon_…"}.
_HEARTBEAT: dict[str, Any] = json.loads(os.environ["LOAD_HEARTBEAT"])
_QUEUE: dict[str, Any] = json.loads(os.environ["LOAD_QUEUE"])
_HOUR_SECONDS = float(os.environ.get("LOAD_HOUR_SECONDS", "20"))
_BURST = 20


class _Reporter(FastHttpUser):
    """Sends small signals. Each signal has the key of its monitor."""

    abstract = True

    def report(self, path: str, key: str, body: dict[str, Any], name: str) -> None:
        """Send a signal. Locust counts every response except 202 as a failure."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        with self.client.post(
            path, data=json.dumps(body).encode(), headers=headers, name=name, catch_response=True
        ) as answer:
            if answer.status_code != 202:
                answer.failure(f"status {answer.status_code}")

    def signal(self, run_id: str, signal: str, name: str) -> None:
        """Send a signal about a run of a heartbeat."""
        body = {"run_id": run_id, "signal": signal}
        self.report(f"/v1/heartbeats/{_HEARTBEAT['id']}", _HEARTBEAT["key"], body, name)


class CronJob(_Reporter):
    """A job that starts, works for a moment, and succeeds or sometimes fails."""

    weight = 2
    wait_time = between(0.5, 2.0)

    @task
    def run_once(self) -> None:
        run_id = str(uuid.uuid4())
        self.signal(run_id, "start", "heartbeat")
        time.sleep(random.uniform(0.01, 0.3))
        self.signal(run_id, "failure" if random.random() < 0.02 else "success", "heartbeat")


class TopOfTheHour(_Reporter):
    """Many jobs with one schedule: they are idle until the top of the hour, and then all report at the
    same moment.

    An hour lasts `LOAD_HOUR_SECONDS` (20). Each user stands for 20 jobs.
    """

    weight = 1

    @task
    def strike(self) -> None:
        time.sleep(_HOUR_SECONDS - time.time() % _HOUR_SECONDS)
        for _ in range(_BURST):
            self.signal(str(uuid.uuid4()), "success", "heartbeat at the top of the hour")


class QueueReporter(_Reporter):
    """A queue with four workers that report their status."""

    weight = 1
    wait_time = constant_pacing(1.0)

    def on_start(self) -> None:
        self._workers = {str(uuid.uuid4()): 0 for _ in range(4)}

    @task
    def snapshot(self) -> None:
        body = {
            "snapshot_id": str(uuid.uuid4()),
            "observed_at": format_time(datetime.now(UTC)),
            "pending": random.randrange(500),
            "delayed": random.randrange(20),
            "reserved": random.randrange(8),
            "failed": random.randrange(3),
            "oldest_wait_seconds": random.randrange(120),
        }
        self.report(f"/v1/queues/{_QUEUE['id']}/snapshots", _QUEUE["key"], body, "queue snapshot")

    @task(4)
    def worker(self) -> None:
        worker = random.choice(list(self._workers))
        self._workers[worker] += 1
        body: dict[str, Any] = {
            "worker_id": worker,
            "sequence": self._workers[worker],
            "status": random.choice(("idle", "busy")),
        }
        if body["status"] == "busy":
            body["job_id"] = str(uuid.uuid4())
        self.report(f"/v1/queues/{_QUEUE['id']}/workers", _QUEUE["key"], body, "worker update")
