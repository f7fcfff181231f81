"""`pharos traces`, `logs`, `issues`, `services` and `metrics` on a running platform."""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.otlp.requests import attribute, logs, span, traces
from tests.support.commands import expect_refusal
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
            *(
                {"type": "metric", "name": "queue.depth", "service": "shop", "payload": {"value": value}}
                for value in (3, 7)
            ),
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
    assert (trace["id"], trace["name"], trace["service"]) == (TRACE, "GET /orders", "shop")
    assert (trace["spans"], trace["errors"], round(trace["duration_ms"])) == (4, 1, 53)
    table = show(platform, "traces", "list", "--errors", "--service", "shop", "--slower-than", "50ms")
    assert TRACE[:12] in table and TRACE not in table
    assert TRACE in show(platform, "trace", "list", "--name", "ship", "--wide")
    for other in (("--slower-than", "1s"), ("--service", "nobody"), ("--until", "2026-01-01")):
        assert show(platform, "traces", *other).startswith("No traces of my-project/production in th")


def test_a_trace_is_printed_as_a_tree(platform: PlatformProcess) -> None:
    shown = show(platform, "traces", "show", TRACE)
    assert show(platform, "traces", "show", TRACE[:12].upper()) == shown
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[:2] == [TRACE, "4 spans, 53ms"]
    assert [line.split()[0] for line in lines[3:6]] == ["GET", "charge", "ship"]
    assert lines[4].startswith("  charge")
    assert "✗ LorryError: no lorry" in shown and "no lorry" in shown and "━" in shown
    unknown = "0" * 31 + "1"
    message = expect_refusal(platform.run, "traces", "show", unknown, status=5)
    assert message == "The environment has no such trace, or it is no longer stored."
    message = expect_refusal(platform.run, "traces", "show", "00000000", status=5)
    assert message.startswith(
        "No trace of my-project/production begins with '00000000' among the newest 1,000"
    )
    assert "is not a trace ID" in expect_refusal(platform.run, "traces", "show", "nonsense", status=5)


def test_log_records_are_listed_and_filtered(platform: PlatformProcess) -> None:
    records = run_json(platform, "logs")
    assert {record["text"].split()[0] for record in records} == {"order", "cart"}
    assert "order 17 failed" in show(platform, "logs", "--severity", "error", "--trace", TRACE[:12])
    assert "cart emptied" in show(platform, "logs", "--search", "EMPTIED cart", "--service", "cart")
    done = platform.run("logs", "--search", "nothing of this", "--since", "2h")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "No log records of my-project/production in the last 2h; --since looks further back.\n"
    )


def test_issues_are_listed_and_shown(platform: PlatformProcess) -> None:
    by_count = {issue["count"]: issue for issue in run_json(platform, "issues")}
    assert set(by_count) == {1, 2}
    row, lorry = by_count[2], by_count[1]
    assert (row["affected_users"], row["frame"], row["first_deployment"]["version"]) == (4, "a (b.js)", "1.0")
    assert (lorry["type"], lorry["trace_id"]) == ("LorryError", TRACE)
    table = show(platform, "issues", "list", "--wide")
    assert row["id"] in table and lorry["id"] in table and "1.0" in table
    one = show(platform, "issues", "show", row["id"][:12])
    # The last stack, and both exceptions.
    assert "at a (b.js:9:9)" in one and "no row 1" in one and "no row 2" in one
    shown = run_json(platform, "issues", "show", row["id"], "-n", "1")
    assert [event["message"] for event in shown["events"]] == ["no row 2"]


def test_people_decide_about_issues(platform: PlatformProcess) -> None:
    (issue,) = (one for one in run_json(platform, "issues") if one["count"] == 1)
    email = run_json(platform, "whoami")["person"]["email"]
    changed = show(platform, "issues", "assign", issue["id"], "me")
    assert changed == f"Issue {issue['id']} is open, assigned to {email}.\n"
    assert [one["id"] for one in run_json(platform, "issues", "--assignee", email)] == [issue["id"]]
    assert [one["count"] for one in run_json(platform, "issues", "--assignee", "none")] == [2]
    for verb, status in (("resolve", "resolved"), ("ignore", "ignored")):
        assert run_json(platform, "issue", verb, issue["id"])["status"] == status
        assert [one["count"] for one in run_json(platform, "issues")] == [2]
        assert [one["id"] for one in run_json(platform, "issues", "--status", status)] == [issue["id"]]
    assert "ignored" in show(platform, "issues", "--status", "all")
    assert run_json(platform, "issues", "reopen", issue["id"])["status"] == "open"
    assert show(platform, "issues", "assign", issue["id"], "none").endswith("assigned to nobody.\n")
    message = expect_refusal(platform.run, "issues", "resolve", "0" * 16, status=5)
    assert message.startswith("The environment has no such exceptions")


def test_services_are_listed(platform: PlatformProcess) -> None:
    (service,) = run_json(platform, "services", "list")
    assert (service["service"], service["requests"], service["errors"]) == ("shop", 1, 0)
    row = show(platform, "services").splitlines()[1].split()
    assert row[:4] == ["shop", "1", "1/h", "-"]
    # With an error below 5 %.
    assert all(47.5 <= float(latency.removesuffix("ms")) <= 57.5 for latency in row[4:])


def test_metrics_are_listed_and_shown_as_charts(platform: PlatformProcess) -> None:
    (metric,) = run_json(platform, "metrics", "list", "--search", "DEPTH")
    assert (metric["name"], metric["kind"]) == ("queue.depth", "gauge")
    assert "queue.depth  gauge" in show(platform, "metrics")
    series = run_json(platform, "metrics", "series", "queue.depth", "--aggregation", "max", "--step", "5m")
    assert [point["value"] for point in series["series"][0]["points"]] == [7.0]
    title, _, row = show(
        platform, "metrics", "series", "queue.depth", "--aggregation", "sum", "--group-by", "service"
    ).splitlines()
    assert title == "queue.depth: sum of every 30s" and row.split() == ["shop", "█", "5", "5", "5"]
    message = expect_refusal(platform.run, "metrics", "series", "none", status=5)
    assert message == "The environment has no such metric in this time range."


def test_bad_arguments_are_refused(platform: PlatformProcess) -> None:
    for command in (
        ("traces", "--since", "soon"),
        ("logs", "-n", "0"),
        ("logs", "-f", "--until", "1h"),
        ("issues", "-n", "1001"),
        ("traces", "--slower-than", "x"),
        ("traces", "--since", "999999999d", "--until", "1h"),
        ("traces", TRACE),
    ):
        done = platform.run(*command)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), command
    done = platform.run("logs", "--search", "x" * 501)
    assert (done.returncode, "search: must be a string of 1 to 500 characters" in done.stderr) == (1, True), (
        done.stderr
    )
