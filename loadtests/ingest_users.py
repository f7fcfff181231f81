"""Locust users that send ingest batches, and record the batches that were acknowledged."""

import json
import os
import random
import time
import uuid
from pathlib import Path
from typing import Any

from locust import between, constant_pacing, task
from locust.contrib.fasthttp import FastHttpUser

_KEY = os.environ["LOAD_INGEST_KEY"]
_RUN = os.environ["LOAD_RUN"]
_HEADERS = {"Authorization": f"Bearer {_KEY}", "Content-Type": "application/json"}
_MAX_PAUSE = 5.0


class Acknowledged:
    """A file that has a line for each batch with a 202: batch ID, number of events, receipt ID."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def write(self, batch_id: str, events: int, receipt: str) -> None:
        self._file.write(f"{json.dumps([batch_id, events, receipt])}\n")


_acknowledged = Acknowledged(Path(os.environ["LOAD_ACKNOWLEDGED"]))


def make_batch(events: int) -> dict[str, Any]:
    """Return a batch of realistic events. The batch has an ID of its own."""
    batch_id = f"{_RUN}-{uuid.uuid4().hex}"
    return {"batch_id": batch_id, "events": [_event(batch_id, n) for n in range(events)]}


def _event(batch_id: str, number: int) -> dict[str, Any]:
    return {
        "type": "request",
        "id": f"{batch_id}-{number}",
        "severity": random.choice(("info", "info", "info", "warning", "error")),
        "service": random.choice(("checkout", "catalog", "search")),
        "name": "GET /orders/{id}",
        "route": "/orders/{id}",
        "status_code": random.choice((200, 200, 201, 404, 500)),
        "duration_ms": round(random.lognormvariate(3, 1), 2),
        "trace_id": uuid.uuid4().hex,
        "attributes": {"host": f"web-{random.randrange(20):02d}", "user.plan": "team"},
        "payload": {"bytes_out": random.randrange(60_000)},
    }


class _Sender(FastHttpUser):
    """Sends a batch until it is acknowledged, as an SDK with a buffer does."""

    abstract = True
    resend_after: float | None = None
    """If there is no response for this many seconds, the same batch is sent again."""

    def send(self, name: str, events: int) -> None:
        """Send a batch, and repeat it until it gets a 202."""
        batch = make_batch(events)
        body = json.dumps(batch).encode()
        pause = 0.1
        if self.resend_after is not None:
            self.client.client.connection_timeout = self.client.client.network_timeout = self.resend_after
        while True:
            with self.client.post(
                "/v1/ingest", data=body, headers=_HEADERS, name=name, catch_response=True
            ) as answer:
                if answer.status_code == 202:
                    answer.success()
                    _acknowledged.write(batch["batch_id"], events, answer.json()["data"]["id"])
                    return
                if answer.status_code == 0 and self.resend_after is not None:
                    # This user gives up on purpose, which is no failure of the platform.
                    answer.success()
                    self.client.client.network_timeout = min(10.0, 2 * self.client.client.network_timeout)
                elif answer.status_code == 429:
                    answer.success()
                elif 400 <= answer.status_code < 500:
                    # A retry would change nothing. Locust counts the failure, and the batch is dropped.
                    return
                wait = float(answer.headers.get("Retry-After", pause)) if answer.headers else pause
            time.sleep(random.uniform(0.5, 1.0) * min(wait, _MAX_PAUSE))
            pause = min(2 * pause, _MAX_PAUSE)


class BatchSender(_Sender):
    """A server that sends the events that it has collected: 100 events, ten times a second."""

    weight = 5
    wait_time = constant_pacing(0.1)

    @task
    def batch(self) -> None:
        self.send("batch of 100", 100)


class SingleSender(_Sender):
    """A small application that sends each event separately."""

    weight = 4
    wait_time = between(0.01, 0.1)

    @task
    def single(self) -> None:
        self.send("single event", 1)


class ImpatientSender(_Sender):
    """A client that gives up too early and sends the same batch again. The batch must still be stored
    only once."""

    weight = 1
    wait_time = between(0.05, 0.2)
    resend_after = 0.02

    @task
    def impatient(self) -> None:
        self.send("impatient resend", 20)
