"""Descriptions of conditions of the alert scan: queues, exceptions, services, metrics, sites, and Pharos itself."""

from typing import Any

import pytest

from notifications.descriptions.all_families import describe
from notifications.descriptions.interface import Subject
from notifications.message import Figure
from pipeline_contracts.alert_kinds import EventState

# 26 November 2026, 03:00 UTC.
AT = 1_795_662_000_000
LIMITS: dict[str, Any] = {"is_above": True, "pending_seconds": 300.0, "since_ms": AT, "severity": "critical"}
QUEUE = {
    **LIMITS,
    "target": "mail",
    "queue_id": 4,
    "unit": "s",
    "value": 660,
    "threshold": 600.0,
    "recovery": 300.0,
}
SIZE = {**QUEUE, "name": "backlog", "unit": "jobs", "value": 1200, "threshold": 1000.0, "recovery": 500.0}
WORKER = {"queue": "mail", "queue_id": 4, "worker": "w-1", "status": "busy", "last_report_ms": AT}
LONG_MESSAGE = "no price " * 20 + "for 'shoes'"
GROUP = {
    "group": "00ff00ff00ff00ff",
    "environment": "env_1",
    "exception": "ValueError",
    "message": "no price for 'shoes'",
    "frame": "shop/cart.py in total",
    "service": "api",
    "count": 3,
    "first_seen_ms": AT,
    "regressed_ms": AT,
}
SPIKE = {**GROUP, "value": 120.0, "usual": 4.2, "threshold": 21.0, "window_seconds": 600}
RATE = {
    **LIMITS,
    "name": "errors of api",
    "target": "api",
    "environment": "env_1",
    "unit": "%",
    "value": 7.25,
    "threshold": 5.0,
    "recovery": 2.0,
    "window_seconds": 300,
}
METRIC = {
    **RATE,
    "target": "queue depth",
    "unit": "",
    "aggregation": "avg",
    "service": "api",
    "is_above": False,
    "pending_seconds": 0.0,
}
SITE = {"site": "shop.example", "site_id": 3}
TRAFFIC = {**SITE, "value": 640.0, "threshold": 250.0, "usual": 50.0}
VITAL = {
    **SITE,
    "vital": "LCP",
    "unit": "ms",
    "value": 4500.0,
    "threshold": 4000.0,
    "recovery": 3600.0,
    "measurements": 812,
}
DISK = {
    **LIMITS,
    "disk": "data folder",
    "free_bytes": 2**33,
    "value": 91.4,
    "threshold": 90.0,
    "recovery": 85.0,
    "unit": "%",
}
LAG = {**LIMITS, "value": 191.0, "threshold": 120.0, "recovery": 30.0, "unit": "s", "pending_seconds": 60.0}
BLIND = {"from_ms": AT, "to_ms": AT + 3_900_000, "what": "column store"}
HOST = {"host": "github", "repository": "acme/shop", "error": "401: Bad credentials"}
# Kind, state and facts; then title, details, and command.
Case = tuple[str, EventState, dict[str, Any], str, list[str], str | None]
CASES: list[Case] = [
    (
        "queue.wait",
        "firing",
        QUEUE,
        "Queue mail has a job that has waited for 11 min",
        [
            "That is over the threshold of 10 min.",
            "It has been so since 26 Nov 2026, 03:00 UTC, for longer than 5 min.",
            "It ends at 5 min.",
        ],
        "pharos queue show 4",
    ),
    (
        "queue.wait",
        "resolved",
        {**QUEUE, "value": 200},
        "Queue mail is no longer too slow",
        ["It has reached the recovery value of 5 min."],
        "pharos queue show 4",
    ),
    (
        "queue.wait",
        "resolved",
        {**QUEUE, "reason": "removed"},
        "Queue mail is no longer watched for this",
        ["The condition was removed, or no longer applies."],
        "pharos queue show 4",
    ),
    (
        "queue.size",
        "firing",
        SIZE,
        "Queue mail has 1,200 jobs",
        [
            "That is over the threshold of 1,000 jobs.",
            "It has been so since 26 Nov 2026, 03:00 UTC, for longer than 5 min.",
            "It ends at 500 jobs.",
        ],
        "pharos queue show 4",
    ),
    (
        "queue.worker_lost",
        "firing",
        WORKER,
        "Worker w-1 of queue mail stopped reporting",
        ["Its last report was at 26 Nov 2026, 03:00 UTC.", "It was busy, and did not report that it stops."],
        "pharos queue show 4",
    ),
    (
        "queue.worker_lost",
        "firing",
        {**WORKER, "worker": "f644fe7c-361b-4c1e-9f0e-0b8a5f1f7d11"},
        "Worker f644fe7c of queue mail stopped reporting",
        ["Its last report was at 26 Nov 2026, 03:00 UTC.", "It was busy, and did not report that it stops."],
        "pharos queue show 4",
    ),
    (
        "queue.worker_lost",
        "resolved",
        {**WORKER, "reason": "forgotten"},
        "Worker w-1 of queue mail is no longer expected",
        ["Its last report was at 26 Nov 2026, 03:00 UTC."],
        "pharos queue show 4",
    ),
    (
        "exception.new",
        "firing",
        GROUP,
        "New exception ValueError in api: no price for 'shoes'",
        ["Raised at shop/cart.py in total.", "First seen at 26 Nov 2026, 03:00 UTC."],
        "pharos issues show 00ff00ff00ff00ff --environment env_1",
    ),
    (
        "exception.new",
        "firing",
        {**GROUP, "message": LONG_MESSAGE},
        f"New exception ValueError in api: {'no price ' * 8}no price…",
        [LONG_MESSAGE, "Raised at shop/cart.py in total.", "First seen at 26 Nov 2026, 03:00 UTC."],
        "pharos issues show 00ff00ff00ff00ff --environment env_1",
    ),
    (
        "exception.new",
        "firing",
        {"message": "no price", "group": "00ff00ff00ff00ff"},
        "New exception no price",
        [],
        "pharos issues show 00ff00ff00ff00ff",
    ),
    (
        "exception.new",
        "info",
        {"more": 7, "environment": "env_1"},
        "7 more new groups of exceptions",
        ["So many groups appeared at once that these have no messages of their own."],
        "pharos issues list --environment env_1",
    ),
    (
        "exception.new",
        "resolved",
        {**GROUP, "reason": "ignored"},
        "ValueError in api was ignored",
        ["no price for 'shoes'", "Raised at shop/cart.py in total."],
        "pharos issues show 00ff00ff00ff00ff --environment env_1",
    ),
    (
        "exception.regressed",
        "firing",
        GROUP,
        "ValueError in api is back after it was resolved",
        [
            "no price for 'shoes'",
            "Raised at shop/cart.py in total.",
            "A newer release raised it at 26 Nov 2026, 03:00 UTC.",
        ],
        "pharos issues show 00ff00ff00ff00ff --environment env_1",
    ),
    (
        "exception.spike",
        "firing",
        SPIKE,
        "ValueError in api is far more frequent than usual",
        [
            "no price for 'shoes'",
            "Raised at shop/cart.py in total.",
            "120 in the last 10 min; usually 4.2 in 10 min during the last day.",
        ],
        "pharos issues show 00ff00ff00ff00ff --environment env_1",
    ),
    (
        "exception.spike",
        "resolved",
        SPIKE,
        "ValueError in api is no longer frequent",
        ["no price for 'shoes'", "Raised at shop/cart.py in total."],
        "pharos issues show 00ff00ff00ff00ff --environment env_1",
    ),
    (
        "service.error_rate",
        "firing",
        RATE,
        "The error rate of api is 7.25%",
        [
            "7.25% in the last 5 min: over the threshold of 5%.",
            "It has been so since 26 Nov 2026, 03:00 UTC, for longer than 5 min.",
            "It ends at 2%.",
        ],
        "pharos services list --environment env_1",
    ),
    (
        "service.error_rate",
        "resolved",
        {**RATE, "value": 1.0},
        "The error rate of api has recovered: 1%",
        ["It has reached the recovery value of 2%."],
        "pharos services list --environment env_1",
    ),
    (
        "service.latency",
        "firing",
        {**RATE, "unit": "ms", "value": 812.3, "threshold": 500.0, "recovery": 250.0},
        "The p95 latency of api is 812 ms",
        [
            "812 ms in the last 5 min: over the threshold of 500 ms.",
            "It has been so since 26 Nov 2026, 03:00 UTC, for longer than 5 min.",
            "It ends at 250 ms.",
        ],
        "pharos services list --environment env_1",
    ),
    (
        "metric.value",
        "firing",
        METRIC,
        "Metric queue depth of api is under its threshold: 7.25",
        ["The average in the last 5 min is 7.25, under the threshold of 5.", "It ends at 2."],
        "pharos metrics series 'queue depth' --environment env_1",
    ),
    (
        "metric.value",
        "resolved",
        METRIC,
        "Metric queue depth of api has recovered: 7.25",
        ["It has reached the recovery value of 2."],
        "pharos metrics series 'queue depth' --environment env_1",
    ),
    (
        "site.spike",
        "firing",
        TRAFFIC,
        "Site shop.example has 640 visitors in 10 min, far more than usual",
        ["At this hour of the last seven days it had 50.0 visitors in 10 min on average."],
        "pharos report 3",
    ),
    (
        "site.silence",
        "firing",
        {**SITE, "usual_visits": 12},
        "Site shop.example has had no visitors for an hour",
        [
            "No event was received in the last 60 min.",
            "On each of the last seven days, at least 12 visits began in the same hour.",
            "Check that the site is up, and that its pages still have the script.",
        ],
        "pharos report 3",
    ),
    (
        "site.vital",
        "firing",
        VITAL,
        "Largest Contentful Paint of site shop.example is poor: 4,500 ms",
        [
            "For a quarter of the measurements of the last day it was at least this slow.",
            "812 measurements were read.",
        ],
        "pharos report 3",
    ),
    (
        "site.vital",
        "resolved",
        {**VITAL, "value": 3000.0},
        "Largest Contentful Paint of site shop.example is no longer poor",
        ["It has reached the recovery value of 3,600 ms."],
        "pharos report 3",
    ),
    (
        "platform.consumer_lag",
        "firing",
        LAG,
        "Received records wait too long to be processed: 3 min 11 s",
        [
            "What was accepted is safe in the log. Until it is processed, pages and alerts show an earlier state.",
            "It has been so since 26 Nov 2026, 03:00 UTC, for longer than 1 min.",
            "It ends at 30 s.",
        ],
        None,
    ),
    (
        "platform.dead_letters",
        "firing",
        {"value": 3.0},
        "Records could not be processed",
        ["They were accepted, and can never be stored as they are. They stay in the log with their reasons."],
        "pharos dead-letters list",
    ),
    (
        "platform.disk",
        "firing",
        DISK,
        "Disk of Pharos (data folder) is nearly full: 91% used",
        ["8.0 GiB are free.", "When the disk is full, nothing can be stored."],
        None,
    ),
    (
        "platform.backup",
        "firing",
        {"value": 1.0, "error": "/mnt/backups has 12 MiB free.", "folder": "/mnt/backups"},
        "A scheduled backup failed",
        [
            "/mnt/backups has 12 MiB free.",
            "The backup is retried after an hour, or earlier if backups are more frequent.",
        ],
        "pharos backup list",
    ),
    ("platform.backup", "resolved", {"value": 0.0}, "A backup was made again", [], "pharos backup list"),
    (
        "platform.blind",
        "info",
        BLIND,
        "Monitoring was blind from 26 Nov 2026, 03:00 UTC to 26 Nov 2026, 04:05 UTC",
        [
            "It lasted 1 h 5 min.",
            "The column store could not be read.",
            "In this time no condition was evaluated, so none was opened or ended.",
        ],
        None,
    ),
    (
        "platform.commit_statuses",
        "firing",
        HOST,
        "github refuses commit statuses of acme/shop",
        ["401: Bad credentials", "Deployments go on; only their statuses at the host are missing."],
        None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2].get('reason', '')}")
def test_descriptions(case: Case) -> None:
    kind, state, facts, title, details, command = case
    found = describe(Subject(kind, state, "subject", facts))
    assert (found.title, found.details, found.command) == (title, details, command)


def test_figures_and_labels_of_a_threshold() -> None:
    found = describe(Subject("queue.size", "firing", "threshold 3", SIZE))
    assert found.labels == {"queue": "mail", "threshold": "backlog"}
    assert found.figures == [Figure(name="pending jobs", value=1200.0, unit="jobs", threshold=1000.0)]
