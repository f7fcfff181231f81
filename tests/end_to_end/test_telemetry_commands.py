"""`pharos traces`, `logs` and `issues` on a running platform."""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from operator_cli.telemetry.trace_tree import walk_spans
from tests.otlp.requests import attribute, logs, span, traces
from tests.support.platform_process import PlatformProcess, platform_process

TRACE = uuid.uuid4().hex
HOSTILE = "evil \x1b[2J\nname [bold]"


def _span(now: int, number: int, parent: int | None, **members: Any) -> dict[str, Any]:
    return span(
        traceId=TRACE.upper(),
        spanId=f"{number:016x}",
        parentSpanId=None if parent is None else f"{parent:016x}",
        startTimeUnixNano=str(now + number * 10**6),
        endTimeUnixNano=str(now + number * 10**6 + 50 * 10**6),
        **members,
    )


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """A platform with a trace, logs, exceptions of both kinds and a recorded deployment."""
    with platform_process(tmp_path_factory.mktemp("reading") / "data") as running:
        # Commands read the last hour, so the events need the time of the test, not of the start of the run.
        now = time.time_ns()
        key = running.credentials["ingest_key"]
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

        def post(path: str, body: Any) -> None:
            answer = running.request(
                "POST", f"/api/v1{path}", body=json.dumps(body).encode(), headers=headers
            )
            assert answer.status in (200, 201, 202), answer.json

        error = {
            "status": {"code": 2, "message": "no lorry"},
            "events": [
                {
                    "timeUnixNano": str(now),
                    "name": "exception",
                    "attributes": [
                        attribute("exception.type", stringValue="LorryError"),
                        attribute("exception.message", stringValue="no lorry for order 17"),
                    ],
                }
            ],
        }
        body = traces(
            _span(now, 1, None, name="GET /orders", kind=2),
            _span(now, 2, 1, name="charge"),
            _span(now, 3, 1, name="ship", **error),
            _span(now, 4, 99, name=HOSTILE),
        )
        body["resourceSpans"][0]["resource"] = {"attributes": [attribute("service.name", stringValue="shop")]}
        post("/otlp/v1/traces", body)
        at = str(now)
        record = {"timeUnixNano": at, "severityNumber": 17, "severityText": "ERROR", "traceId": TRACE}
        post("/otlp/v1/logs", logs({**record, "body": {"stringValue": f"order 17 failed {HOSTILE}"}}))
        for version, before in (("1.0", timedelta(days=2)), ("2.0", timedelta(days=-1))):
            report = {
                "deployment_id": str(uuid.uuid4()),
                "version": version,
                "deployed_at": (datetime.now(UTC) - before).isoformat(),
            }
            post("/deployments", report)
        earlier = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        events = [
            {"type": "log", "severity": "info", "title": "cart emptied", "service": "cart"},
            {
                "type": "exception",
                "title": "no row 1",
                "timestamp": earlier,
                "details": "at a (b.js:1:2)",
                "affected_users": 4,
            },
            {"type": "exception", "title": "no row 2", "details": "at a (b.js:9:9)"},
        ]
        post("/ingest", {"batch_id": uuid.uuid4().hex, "events": events})
        running.wait_until_consumed()
        yield running


def run_json(platform: PlatformProcess, *command: str) -> Any:
    done = platform.run(*command, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def show(platform: PlatformProcess, *command: str) -> str:
    done = platform.run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b[2J" not in done.stdout
    return done.stdout


def test_traces_are_listed_and_filtered(platform: PlatformProcess) -> None:
    (trace,) = run_json(platform, "traces")
    assert (trace["trace_id"], trace["name"], trace["service"]) == (TRACE, "GET /orders", "shop")
    assert (trace["spans"], trace["errors"], round(trace["duration_ms"])) == (4, 1, 53)
    assert TRACE in show(platform, "traces", "--errors", "--service", "shop", "--slower-than", "50ms")
    for other in (("--slower-than", "1s"), ("--service", "nobody"), ("--environment", "env_nobody")):
        assert show(platform, "traces", *other).startswith("Found no traces in the last 1h")


def test_a_trace_is_printed_as_a_tree(platform: PlatformProcess) -> None:
    shown = show(platform, "traces", TRACE)
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[0] == "4 spans, 53ms"
    assert [line.split()[0] for line in lines[2:5]] == ["GET", "charge", "ship"]
    assert lines[3].startswith("  charge")
    assert "✗ LorryError: no lorry" in shown and "no lorry" in shown and "━" in shown
    assert show(platform, "traces", "0" * 31 + "1") == "No spans of this trace are stored.\n"
    done = platform.run("traces", "nonsense")
    assert (done.returncode, "is no trace ID" in done.stderr) == (1, True)


def test_cycles_of_parent_spans_terminate() -> None:
    spans = [
        {"span_id": one, "parent_span_id": parent}
        for one, parent in (("a", "b"), ("b", "a"), ("c", "c"), ("d", "gone"), ("e", "d"), ("f", "b"))
    ]
    found = [(depth, one["span_id"]) for depth, one in walk_spans(spans)]
    assert sorted(one for _, one in found) == ["a", "b", "c", "d", "e", "f"]
    assert (1, "e") in found and (0, "d") in found


def test_log_records_are_listed_and_filtered(platform: PlatformProcess) -> None:
    records = run_json(platform, "logs")
    assert {record["text"].split()[0] for record in records} == {"order", "cart"}
    assert "order 17 failed" in show(platform, "logs", "--severity", "error", "--trace", TRACE)
    assert "cart emptied" in show(platform, "logs", "--search", "EMPTIED", "--service", "cart")
    assert show(platform, "logs", "--search", "nothing of this").startswith("Found no log records")


def test_issues_are_listed_and_shown(platform: PlatformProcess) -> None:
    by_count = {issue["count"]: issue for issue in run_json(platform, "issues")}
    assert set(by_count) == {1, 2}
    row, lorry = by_count[2], by_count[1]
    assert (row["affected_users"], row["top_frame"], row["first_deployment"]) == (4, "a (b.js)", "1.0")
    assert (lorry["exception_type"], lorry["newest_trace_id"]) == ("LorryError", TRACE)
    table = show(platform, "issues")
    assert row["id"] in table and lorry["id"] in table and "1.0" in table
    one = show(platform, "issues", row["id"])
    assert "no row 2" in one and "at a (b.js:9:9)" in one
    assert show(platform, "issues", "0" * 16).startswith("Found no exceptions in the last 14d")


def test_bad_arguments_are_refused(platform: PlatformProcess) -> None:
    for command in (
        ("traces", "--since", "soon"),
        ("logs", "-n", "0"),
        ("issues", "-n", "1001"),
        ("traces", "--slower-than", "x"),
    ):
        done = platform.run(*command)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    done = platform.run("logs", "--search", "x" * 501)
    assert (done.returncode, "search has more than 500 characters" in done.stderr) == (1, True)
