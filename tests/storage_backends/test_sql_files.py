"""Statements in `.sql` files, by name."""

import re
from pathlib import Path

import pytest

from storage_backends.monitor_states import postgres, sqlite
from storage_backends.sql_files import read_statements


def test_statements_are_split_by_name(tmp_path: Path) -> None:
    (tmp_path / "orders.sql").write_text(
        "-- On orders.\n\n-- name: count_all\n-- How many?\nSELECT count(*)\nFROM orders;\n\n-- name: one\nSELECT 1;\n"
    )
    assert read_statements(tmp_path / "orders.py") == {
        "count_all": "-- How many?\nSELECT count(*)\nFROM orders",
        "one": "SELECT 1",
    }


@pytest.mark.parametrize("module", [postgres, sqlite])
def test_an_adapter_runs_every_statement_of_its_file_and_no_other(module: object) -> None:
    path = str(module.__file__)  # type: ignore[attr-defined]
    used = re.findall(r'_SQL\["(\w+)"\]', Path(path).read_text())
    statements = read_statements(path)
    assert set(used) == set(statements)
    assert all(text.startswith("-- ") for text in statements.values())
