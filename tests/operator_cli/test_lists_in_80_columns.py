"""Lists of issues, thresholds and settings in 80 columns: nothing that people need is cut or squeezed."""

import argparse
from typing import Any

import pytest
from rich.cells import cell_len

from operator_cli.notifications.threshold_tables import show_thresholds
from operator_cli.settings import register_settings
from operator_cli.telemetry.issue_tables import show_issues
from tests.operator_cli.notifications.documents import threshold


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def _read_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(cell_len, lines)) <= 80
    return lines


def _issue(**changes: Any) -> dict[str, Any]:
    return {
        "id": "3ce1b82038d1da00",
        "status": "open",
        "count": 1234,
        "last_seen": "2026-11-20T09:30:00Z",
        "first_seen": "2026-11-19T09:30:00Z",
        "type": "sqlalchemy.exc.OperationalError",
        "message": "canceling statement due to statement timeout",
        "frame": "/app/inventory/stock.py in load",
        "affected_users": 40,
        "first_deployment": None,
        "assignee": None,
        "regressed_at": None,
        **changes,
    }


def test_an_open_issue_has_room_for_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    show_issues(argparse.Namespace(), [_issue(), _issue(id="4" * 16)], "")
    header, *lines = _read_lines(capsys)
    assert header.split() == ["ID", "Count", "Users", "Last", "seen", "What"]
    assert [line.split("  ")[-1].strip() for line in lines[:3]] == [
        "OperationalError: canceling statement",
        "due to statement timeout",
        "/app/inventory/stock.py in load",
    ]


@pytest.mark.parametrize("changes", [{"status": "resolved"}, {"regressed_at": "2026-11-20T09:30:00Z"}])
def test_issues_in_several_states_show_their_states(
    capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    show_issues(argparse.Namespace(), [_issue(), _issue(id="4" * 16, **changes)], "")
    output = "\n".join(_read_lines(capsys))
    assert "Status" in output and "open" in output and ("resolved" in output or "regressed" in output)
    show_issues(argparse.Namespace(wide=True), [_issue()], "")
    assert "Status" in capsys.readouterr().out


def test_the_figure_and_the_limit_of_a_threshold_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        threshold(
            kind="metric.value",
            target="db.client.connection.count",
            service="inventory",
            aggregation="max",
            project={"slug": "my-project"},
            environment={"slug": "production"},
        ),
        threshold(kind="queue.wait", target="images", value=2409, threshold=1200.0),
    ]
    show_thresholds(argparse.Namespace(), rows)
    output = "\n".join(_read_lines(capsys))
    assert "…" not in output
    for part in ("db.client.connection.count", "my-project/production", "metric.value", "queue.wait images"):
        assert part in output, part


def test_the_meaning_of_a_setting_has_half_of_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    register_settings(parser.add_subparsers())
    arguments = parser.parse_args(["settings"])
    assert arguments.run(arguments) == 0
    header, *lines = _read_lines(capsys)
    assert header.split() == ["Variable", "Meaning"]
    assert header.index("Meaning") <= 40
    assert any(line.endswith("[default: info]") for line in lines)
