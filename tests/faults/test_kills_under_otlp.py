"""`kill -9` of the platform while spans, log records, data points and heartbeat signals arrive."""

import contextlib
import http.client
import json
import random
import sqlite3
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.otlp.requests import logs, metrics, span, traces
from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.waits import wait_until

_RECORDS = 50
_FEWEST = 1000


class Sender(threading.Thread):
    """Sends continuously, each request once: a request without a response may be stored or not, but not twice."""

    def __init__(self, platform: PlatformProcess) -> None:
        super().__init__()
        self._platform = platform
        self._credentials = platform.credentials
        self.ended = threading.Event()
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.runs: set[str] = set()

    def run(self) -> None:
        while not self.ended.is_set():
            for signal in ("traces", "logs", "metrics"):
                marks = [uuid.uuid4().hex for _ in range(_RECORDS)]
                self.sent.update(marks)
                if (
                    self._post(f"/otlp/v1/{signal}", self._credentials["ingest_key"], _body(signal, marks))
                    == 200
                ):
                    self.acknowledged.update(marks)
            self._signal(str(uuid.uuid4()))

    def _signal(self, run: str) -> None:
        """Send both signals of a run until each is accepted, as a job's wrapper does."""
        heartbeat = self._credentials["heartbeat"]
        for signal in ("start", "success"):
            body = {"run_id": run, "signal": signal}
            while self._post(f"/heartbeats/{heartbeat['id']}", heartbeat["key"], body) != 202:
                if self.ended.is_set():
                    return
                time.sleep(0.05)
        self.runs.add(run)

    def _post(self, path: str, key: str, body: Any) -> int | None:
        """Return the status; None without a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self._platform.port, timeout=60)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            try:
                connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                return None


def _body(signal: str, marks: list[str]) -> Any:
    if signal == "traces":
        return traces(*[span(traceId=mark, name=mark) for mark in marks])
    if signal == "logs":
        return logs(*[{"body": {"stringValue": mark}} for mark in marks])
    # Two kinds, so that a request goes into two tables.
    points = [
        {"name": mark, kind: {"dataPoints": [{"timeUnixNano": "1", "asInt": "1"}]}}
        for mark, kind in zip(marks, ("gauge", "sum") * (_RECORDS // 2), strict=True)
    ]
    return metrics(*points)


_STORED = " UNION ALL ".join(
    f"SELECT {column} AS mark, count() AS times FROM pharos.{table} GROUP BY mark"
    for table, column in (
        ("otel_traces", "SpanName"),
        ("otel_logs", "Body"),
        ("otel_metrics_gauge", "MetricName"),
        ("otel_metrics_sum", "MetricName"),
    )
)


# More kills repeat the same race at other moments.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.full)])
def test_acknowledged_records_are_stored_once(tmp_path: Path, kills: int) -> None:
    moments = random.Random(20261121)
    variables = {"PHAROS_INGEST_RATE": "1000000", "PHAROS_INGEST_BURST": "1000000"}
    with platform_process(tmp_path / "data", env=variables) as platform:
        sender = Sender(platform)
        sender.start()
        try:
            for _ in range(kills):
                time.sleep(moments.uniform(0.3, 1.5))
                platform.kill()
                platform.start()
            # Send this much, however long the machine takes.
            wait_until(lambda: len(sender.acknowledged) > _FEWEST, 180)
        finally:
            sender.ended.set()
            sender.join(120)
        assert not sender.is_alive()
        platform.wait_until_consumed()
        stored = {row["mark"]: int(row["times"]) for row in platform.query(_STORED)}
        platform.stop()
    assert {mark for mark, times in stored.items() if times != 1} == set()
    assert sender.acknowledged - set(stored) == set()
    assert set(stored) - sender.sent == set()
    with contextlib.closing(sqlite3.connect(platform.data / "control.sqlite")) as connection:
        sql = "SELECT run_id FROM heartbeat_runs WHERE started_ms IS NOT NULL AND succeeded_ms IS NOT NULL"
        runs = {run for (run,) in connection.execute(sql)}
        (state,) = connection.execute("SELECT state, open_runs, failures_in_row FROM heartbeat_states")
    assert sender.runs - runs == set()
    # The end of the test may have interrupted the last run.
    assert state in (("up", 0, 0), ("running", 1, 0))
