"""Crontab lines for heartbeats, and lists of monitors of several environments."""

import argparse
from typing import Any

import pytest

from operator_cli.monitors.heartbeat_tables import show_heartbeats
from operator_cli.monitors.queue_tables import show_queues
from operator_cli.monitors.usage import describe_ping_url

_HOUR = 3600
_DAY = 24 * _HOUR


@pytest.mark.parametrize(
    ("period", "schedule"),
    [
        (60, "* * * * *"),
        (15 * 60, "*/15 * * * *"),
        (_HOUR, "0 * * * *"),
        (6 * _HOUR, "0 */6 * * *"),
        (_DAY, "0 3 * * *"),
        (7 * _DAY, "0 3 * * 0"),
        *((period, "SCHEDULE") for period in (30, 90, 7 * 60, 90 * 60, 5 * _HOUR, 2 * _DAY)),
    ],
)
def test_the_crontab_line_has_the_period_of_the_heartbeat(period: int, schedule: str) -> None:
    heartbeat = {"id": 3, "cron": None, "period_seconds": period}
    key = {"id": 4, "urls": {"success": "/api/v1/ping/x"}}
    text = describe_ping_url(heartbeat, key, "http://pharos.example")
    assert f"In a crontab:\n  {schedule}  /usr/local/bin/backup; curl " in text


def _monitor(environment: str, **values: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "name": "backup",
        "project": {"slug": "shop"},
        "environment": {"slug": environment},
        **values,
    }


def _heartbeat(environment: str) -> dict[str, Any]:
    return _monitor(
        environment,
        state="down",
        since="2026-11-26T03:10:00Z",
        cron="*/15 8-18 * * mon-fri",
        timezone="Europe/Oslo",
        last_success_at="2026-11-26T03:10:00Z",
        due_at=None,
        failures_in_row=1,
    )


def _queue(environment: str) -> dict[str, Any]:
    counts = dict.fromkeys(("pending", "delayed", "reserved", "failed"), 12_000)
    workers = {"busy": 1, "idle": 2, "lost": 3}
    return _monitor(
        environment, observed_at="2026-11-26T03:10:00Z", oldest_wait_seconds=90, workers=workers, **counts
    )


@pytest.mark.parametrize(("show", "make"), [(show_heartbeats, _heartbeat), (show_queues, _queue)])
def test_monitors_of_several_environments_are_distinguishable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], show: Any, make: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show(argparse.Namespace(), [make("production"), make("staging")])
    output = capsys.readouterr().out
    assert "shop/production/backup" in output and "shop/staging/backup" in output
    show(argparse.Namespace(), [make("production")])
    assert "production/backup" not in capsys.readouterr().out
