"""Locust users that act as OpenTelemetry SDKs and collectors. They send batches of spans, log records
and data points."""

import gzip
import os
import random
import time
from typing import Any

from locust import constant_pacing, task
from locust.contrib.fasthttp import FastHttpUser

from loadtests.bench.otlp_payloads import otlp_bodies

_HEADERS = {
    "Authorization": f"Bearer {os.environ['LOAD_INGEST_KEY']}",
    "Content-Type": "application/json",
    "Content-Encoding": "gzip",
}
_DISTINCT_BODIES = 32
_MAX_PAUSE = 5.0
# Status codes after which the protocol allows a sender to retry.
_RETRYABLE = (0, 429, 502, 503, 504)
_BODIES = {
    signal: [gzip.compress(body) for body in otlp_bodies(signal, "json", _DISTINCT_BODIES)]
    for signal in ("traces", "logs", "metrics")
}


class OtlpExporter(FastHttpUser):
    """An application that sends all three signals, 100 records per request. It retries as an exporter
    does."""

    weight = 3
    wait_time = constant_pacing(0.2)

    @task(5)
    def traces(self) -> None:
        self._export("traces")

    @task(3)
    def logs(self) -> None:
        self._export("logs")

    @task(1)
    def metrics(self) -> None:
        self._export("metrics")

    def _export(self, signal: str) -> None:
        body = random.choice(_BODIES[signal])
        pause = 0.1
        while True:
            with self._post(signal, body) as answer:
                if answer.status_code == 200:
                    if b"partialSuccess" in answer.content:
                        answer.failure("some records were rejected")
                    return
                if answer.status_code not in _RETRYABLE:
                    return
                if answer.status_code == 429:
                    answer.success()
                wait = float(answer.headers.get("Retry-After", pause)) if answer.headers else pause
            time.sleep(random.uniform(0.5, 1.0) * min(wait, _MAX_PAUSE))
            pause = min(2 * pause, _MAX_PAUSE)

    def _post(self, signal: str, body: bytes) -> Any:
        return self.client.post(
            f"/v1/otlp/v1/{signal}",
            data=body,
            headers=_HEADERS,
            name=f"100 of {signal}",
            catch_response=True,
        )
