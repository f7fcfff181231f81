"""Descriptions of heartbeats, deployments, processes and previews, and of incomplete facts."""

import itertools
from typing import Any, get_args

import pytest

from notifications.descriptions.all_families import describe
from notifications.descriptions.interface import Subject
from notifications.incidents.apply_events import Event, Incident, apply_events
from pipeline_contracts.alert_kinds import ALERT_KINDS, EventState

# 26 November 2026, 03:00 UTC.
AT = 1_795_662_000_000
MINUTE = 60_000
HEARTBEAT: dict[str, Any] = {
    "heartbeat": "nightly-backup",
    "state": "down",
    "since_ms": AT + 5 * MINUTE,
    "due_ms": AT,
    "last_signal_ms": AT - 1440 * MINUTE,
    "last_success_ms": AT - 1440 * MINUTE,
    "failures_in_row": 1,
    "failures_before_down": 1,
    "period_seconds": None,
    "cron": "0 3 * * *",
    "timezone": "Europe/Oslo",
    "grace_ms": 5 * MINUTE,
    "max_runtime_ms": 90 * MINUTE,
}
DEPLOYMENT: dict[str, Any] = {
    "number": 7,
    "status": "failed",
    "environment": "shop/production",
    "address": "http://production.shop.localhost",
    "revision": "0123456789abcdef",
    "ref": "main",
    "commit_subject": "Add a cart",
    "commit_author": "Ada",
    "trigger": "push",
    "note": "pushed by ada",
    "asked_by": None,
    "reason": "The build failed: npm exited with status 1.",
    "duration_seconds": 130,
}
ORIGIN = ["Commit 0123456 of main by Ada: Add a cart", "Started by a push: pushed by ada."]
PROCESS: dict[str, Any] = {
    "process": "web",
    "restarts": 3,
    "threshold": 3,
    "within_seconds": 300,
    "steady_seconds": 300,
    "last_exit": "exited with status 1",
    "deployment": 7,
    "environment": "shop/production",
}
SCHEDULE = "It is due on the schedule 0 3 * * * (Europe/Oslo)."
SUCCESS = "Its last success was at 25 Nov 2026, 03:00 UTC."
# Kind, state, subject and facts; then title, details, figures (name, value, unit, threshold), and command.
Case = tuple[str, EventState, str, dict[str, Any], str, list[str], list[tuple[Any, ...]], str | None]
CASES: list[Case] = [
    (
        *("heartbeat.down", "firing", "12", {**HEARTBEAT, "cause": "missed"}),
        "Heartbeat nightly-backup is down",
        ["A run was due at 26 Nov 2026, 03:00 UTC, and none began within 5 min.", SUCCESS, SCHEDULE],
        [("failures in a row", 1, "", 1)],
        "pharos heartbeat show 12",
    ),
    (
        "heartbeat.down",
        "firing",
        "12",
        {
            **HEARTBEAT,
            "cause": "failed",
            "exit_status": 2,
            "failures_in_row": 3,
            "last_success_ms": None,
            "due_ms": HEARTBEAT["since_ms"] + 86_100_000,
            "output": "dumping\n\x1b[31mpg_dump: error: connection to server failed\n",
        },
        "Heartbeat nightly-backup is down",
        [
            "Its run failed with exit status 2 at 26 Nov 2026, 03:05 UTC.",
            "3 runs failed in a row.",
            "Its output ended with: dumping [31mpg_dump: error: connection to server failed",
            "No run has succeeded yet.",
            f"{SCHEDULE[:-1]}, next at 27 Nov 2026, 03:00 UTC.",
        ],
        [("failures in a row", 3, "", 1)],
        "pharos heartbeat show 12",
    ),
    (
        *("heartbeat.down", "firing", "12", {**HEARTBEAT, "cause": "timed out"}),
        "Heartbeat nightly-backup is down",
        ["Its run did not end within 1 h 30 min.", SUCCESS, SCHEDULE],
        [("failures in a row", 1, "", 1)],
        "pharos heartbeat show 12",
    ),
    (
        "heartbeat.late",
        "firing",
        "12",
        {**HEARTBEAT, "state": "late", "failures_in_row": 0, "cron": None, "period_seconds": 5400},
        "Heartbeat nightly-backup is late",
        [
            "A run was due at 26 Nov 2026, 03:00 UTC, and no signal has arrived.",
            "Without a signal, the run counts as failed 5 min after its due time.",
            SUCCESS,
            "It is due every 1 h 30 min.",
        ],
        [],
        "pharos heartbeat show 12",
    ),
    (
        *("heartbeat.down", "resolved", "12", {**HEARTBEAT, "state": "up"}),
        "Heartbeat nightly-backup is up again",
        ["It has been up since 26 Nov 2026, 03:05 UTC.", SUCCESS, SCHEDULE],
        [],
        "pharos heartbeat show 12",
    ),
    (
        *("heartbeat.late", "resolved", "12", {**HEARTBEAT, "state": "running"}),
        "Heartbeat nightly-backup runs again",
        ["A run began at 26 Nov 2026, 03:05 UTC.", SUCCESS, SCHEDULE],
        [],
        "pharos heartbeat show 12",
    ),
    (
        *("heartbeat.down", "resolved", "12", {**HEARTBEAT, "reason": "removed"}),
        "Heartbeat nightly-backup was removed",
        ["Somebody removed the heartbeat.", SUCCESS, SCHEDULE],
        [],
        None,
    ),
    (
        *("deployment.failed", "firing", "environment", DEPLOYMENT),
        "Deployment 7 failed",
        ["The build failed: npm exited with status 1.", *ORIGIN],
        [("duration", 130, "s", None)],
        "pharos logs 7",
    ),
    (
        *("deployment.failed", "resolved", "environment", {**DEPLOYMENT, "reason": None}),
        "Deployment 7 succeeded after a failed one",
        ORIGIN,
        [("duration", 130, "s", None)],
        "pharos logs 7",
    ),
    (
        *("deployment.failed", "resolved", "environment", {**DEPLOYMENT, "reason": "removed"}),
        "The environment of deployment 7 was removed",
        ORIGIN,
        [("duration", 130, "s", None)],
        "pharos logs 7",
    ),
    (
        "deployment.awaiting_approval",
        "firing",
        "approval 7",
        {"number": 7, "trigger": "api", "asked_by": "Ada", "ref": "main"},
        "Deployment 7 waits for approval",
        ["From main.", "Started by Ada."],
        [],
        "pharos approve deployment 7",
    ),
    (
        *("deployment.awaiting_approval", "resolved", "approval 7", {"number": 7, "status": "rejected"}),
        "Deployment 7 no longer waits for approval",
        ["It was rejected."],
        [],
        "pharos logs 7",
    ),
    (
        *("deployment.succeeded", "info", "succeeded 7", DEPLOYMENT),
        "Deployment 7 succeeded",
        ORIGIN,
        [("duration", 130, "s", None)],
        "pharos logs 7",
    ),
    (
        *("preview.ready", "info", "ready 7", DEPLOYMENT),
        "The preview of main is ready",
        ["It is at http://production.shop.localhost", *ORIGIN, "It took 2 min 10 s."],
        [("duration", 130, "s", None)],
        "pharos logs 7",
    ),
    (
        *("process.crash_loop", "firing", "web", PROCESS),
        "Process web crashes again and again",
        [
            "It was restarted 3 times within 5 min.",
            "Last exit: exited with status 1.",
            "It belongs to deployment 7.",
        ],
        [("restarts", 3, "", 3)],
        "pharos logs shop/production",
    ),
    (
        *("process.crash_loop", "resolved", "web", {**PROCESS, "reason": "stable"}),
        "Process web runs again",
        ["It has not ended for 5 min.", "It belongs to deployment 7."],
        [],
        "pharos logs shop/production",
    ),
    (
        *("process.crash_loop", "resolved", "web", {**PROCESS, "reason": "replaced"}),
        "Process web was replaced",
        ["It belongs to deployment 7."],
        [],
        "pharos logs shop/production",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[4]}")
def test_descriptions(case: Case) -> None:
    kind, state, subject, facts, title, details, figures, command = case
    found = describe(Subject(kind, state, subject, facts))
    assert (found.title, found.details, found.command) == (title, details, command)
    assert [(f.name, f.value, f.unit, f.threshold) for f in found.figures] == figures


WRONG: tuple[Any, ...] = (None, "", -1, 10**30, True, 1.5, "x\n" * 3000, [], {})


def test_facts_may_lack_anything_and_be_of_any_type() -> None:
    """Facts of another version never raise, and the title stays a line of at most 200 characters."""
    names = {*HEARTBEAT, *DEPLOYMENT, *PROCESS, "cause", "exit_status", "reason"}
    for kind, state in itertools.product(ALERT_KINDS, get_args(EventState)):
        for value in WRONG:
            for facts in ({}, dict.fromkeys(names, value)):
                found = describe(Subject(kind, state, "subject 1", facts))
                assert 0 < len(found.title) <= 200 and "\n" not in found.title, (kind, state, value)
                assert all(isinstance(label, str) for label in found.labels.values())


def test_a_kind_of_another_version_has_a_title() -> None:
    titles = [describe(Subject("other.thing", state, "12", {})).title for state in ("firing", "resolved")]
    assert titles == ["other.thing: 12", "Resolved: other.thing: 12"]


def test_a_test_names_its_channel() -> None:
    found = describe(Subject("test.message", "info", "channel 5", {"channel_id": 5, "channel": "ops"}))
    assert (found.title, found.labels) == ("Test of channel ops", {"channel": "ops"})


def test_a_resolution_has_the_figures_and_labels_of_its_incident() -> None:
    """A receiver matches the end by these, because the facts of the end have another deployment or value."""
    for kind, facts, end in (
        ("heartbeat.down", {**HEARTBEAT, "cause": "missed"}, {**HEARTBEAT, "failures_in_row": 0}),
        ("deployment.failed", DEPLOYMENT, {"number": 8, "revision": "fedcba", "duration_seconds": 9}),
        ("process.crash_loop", PROCESS, {"process": "web", "deployment": 8, "reason": "replaced"}),
        (
            "service.latency",
            {"target": "api", "unit": "ms", "value": 900.0, "threshold": 800.0},
            {"target": "api", "unit": "ms", "reason": "removed"},
        ),
    ):
        firing = Event((1, 2, 3), kind, "7", "firing", 0, facts)
        incident = Incident(firing, firing, "seen", 5)
        apply_events([Event((1, 2, 3), kind, "7", "resolved", 1, end)], {firing.key: incident})
        opened = describe(Subject(kind, "firing", "7", facts))
        ended = describe(Subject(kind, "resolved", "7", incident.last.facts))
        assert opened.figures and (ended.figures, ended.labels) == (opened.figures, opened.labels), kind
        assert ended.title != opened.title
