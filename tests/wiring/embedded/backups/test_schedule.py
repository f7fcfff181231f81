"""The due times of scheduled backups and of restore tests."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from control_domain.storage.backups import BackupDocument
from wiring.embedded.backups.schedule import is_due, is_test_due

_NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def _at(hours: float) -> str:
    return (_NOW - timedelta(hours=hours)).isoformat()


def _backup(hours: float, source: str = "schedule", tested: float | None = None) -> BackupDocument:
    test = None if tested is None else {"at": _at(tested)}
    return cast(BackupDocument, {"created_at": _at(hours), "source": source, "restore_test": test})


def test_a_backup_is_due_after_the_hours_and_is_tried_again_after_a_failure() -> None:
    failed: dict[str, Any] = {"error": "full", "source": "schedule"}
    cases: list[tuple[list[BackupDocument], dict[str, Any] | None, float, bool]] = [
        ([], None, 24, True),
        ([_backup(23.9)], None, 24, False),
        ([_backup(24)], None, 24, True),
        # A manual backup does not replace a scheduled one.
        ([_backup(1, "command")], None, 24, True),
        ([_backup(25)], {**failed, "at": _at(0.9)}, 24, False),
        ([_backup(25)], {**failed, "at": _at(1)}, 24, True),
        ([_backup(0.6)], {**failed, "at": _at(0.5)}, 0.5, True),
        ([], {**failed, "at": _at(0.1), "source": "command"}, 24, True),
    ]
    for backups, attempt, hours, expected in cases:
        assert is_due(backups, attempt, hours, _NOW) is expected, (backups, attempt, hours)


def test_a_restore_is_tested_once_a_week() -> None:
    for backups, expected in (
        ([], True),
        ([_backup(1)], True),
        ([_backup(1), _backup(200, tested=167)], False),
        ([_backup(1), _backup(200, tested=168)], True),
    ):
        assert is_test_due(backups, _NOW) is expected
