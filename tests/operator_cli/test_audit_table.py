"""The audit log as a table."""

import argparse

import pytest

from operator_cli.accounts.audit_table import show_audit_entries


def test_details_are_written_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    entry = {
        "at": "2026-11-26T03:10:00.000Z",
        "person": None,
        "source": "operator",
        "token_id": None,
        "action": "environment.update",
        "subject": "environment env_1",
        "details": {"approval": {"deploys": False, "variables": True}, "removed": [], "set": ["A", "B"]},
    }
    show_audit_entries(argparse.Namespace(), [entry])
    assert "approval=(deploys=no, variables=yes), removed=none, set=A B" in capsys.readouterr().out
