"""Tables at the width of the terminal: words stay whole, IDs are shortened, and optional columns are dropped."""

import argparse
from typing import Any

import pytest
from rich.cells import cell_len
from rich.text import Text

from operator_cli.tables import Column, print_table, shorten_ids

_ID = "env_01m8ay68szed3tqjhxpjfdmvmk"
_COLUMNS = [
    Column("Name", wraps=False),
    Column("Note"),
    Column("By", is_optional=True),
    Column("When", wraps=False, is_optional=True),
    Column("ID", is_id=True),
]
_ROW = ("shop/production", "all is well", "ada@example.com", "2m ago", _ID)


def _print(
    capsys: pytest.CaptureFixture[str],
    *rows: tuple[Any, ...],
    columns: list[Column] = _COLUMNS,
    wide: bool = False,
) -> list[str]:
    print_table(argparse.Namespace(wide=wide), columns, rows, empty="No rows. `pharos up` makes some.")
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_rows_that_fit_are_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    header, line = _print(capsys, _ROW)
    assert header.split() == ["Name", "Note", "By", "When", "ID"]
    assert line == "shop/production  all is well  ada@example.com  2m ago  env_01m8ay68szed"


def test_an_optional_column_without_values_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    row = ("shop/production", "all is well", None, "2m ago", _ID)
    assert _print(capsys, row)[0].split() == ["Name", "Note", "When", "ID"]
    assert "By" in _print(capsys, row, _ROW)[0] and "By" in _print(capsys, row, wide=True)[0]


def test_numbers_are_aligned_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column("Name"), Column("Count", is_number=True)]
    header, *lines = _print(capsys, ("a", 5), ("b", "1,000"), columns=columns)
    assert [header, *lines] == ["Name  Count", "a         5", "b     1,000"]


def test_long_texts_wrap_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    note = "the quick brown fox jumps over the lazy dog again"
    lines = _print(capsys, ("shop/production", note, None, None, _ID))
    assert max(map(cell_len, lines)) <= 80
    words = {word for line in lines[1:] for word in line.split()}
    assert set(note.split()) <= words and "shop/production" in words


def test_optional_columns_give_way_from_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    long = ("shop/a-preview-of-a-branch-with-a-long-name", "well", "ada@example.com", "2m ago", _ID)
    lines = _print(capsys, long)
    assert lines[0].split() == ["Name", "Note", "By", "ID"] or lines[0].split() == ["Name", "Note", "ID"]
    assert "shop/a-preview-of-a-branch-with-a-long-name" in lines[1]
    assert max(map(cell_len, lines)) <= 80


def test_text_that_cannot_fit_is_visibly_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _print(capsys, ("x" * 100, "y" * 100, None, None, _ID))
    assert max(map(cell_len, lines)) <= 80
    assert lines[1].count("…") >= 2


def test_wide_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _print(capsys, ("x" * 100, "y z " * 50, "ada", "now", _ID), wide=True)
    assert lines[1].split() == ["x" * 100, *["y", "z"] * 50, "ada", "now", _ID]


def test_characters_of_double_width_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _print(capsys, ("店" * 10, "日本 " * 20, None, None, _ID))
    assert max(map(cell_len, lines)) <= 80


def test_no_rows_and_hostile_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert _print(capsys) == ["No rows. `pharos up` makes some."]
    lines = _print(capsys, ("[red]a[/red]", "b\x1b[2J\nc", None, Text("now"), _ID))
    assert "[red]a[/red]  b [2J c" in lines[1] and "\x1b" not in "".join(lines)


@pytest.mark.parametrize(
    ("ids", "shortened"),
    [
        ([_ID], ["env_01m8ay68szed"]),
        ([_ID, "env_01m8ay68szed4tqjhxpjfdmvmk"], ["env_01m8ay68szed3", "env_01m8ay68szed4"]),
        ([_ID, _ID], ["env_01m8ay68szed", "env_01m8ay68szed"]),
        (["7", "-"], ["7", "-"]),
        # Traces and issues have no prefix.
        (["4bf92f3577b34da6a3ce929d0e0e4736"], ["4bf92f3577b3"]),
        ([], []),
    ],
)
def test_ids_are_shortened_but_stay_distinct(ids: list[str], shortened: list[str]) -> None:
    assert shorten_ids(ids) == shortened


def test_a_message_keeps_its_room_before_optional_columns(capsys: pytest.CaptureFixture[str]) -> None:
    note = "the quick brown fox jumps over the lazy dog again"
    columns = [Column("Name", wraps=False), Column("Note", min_width=40), *_COLUMNS[2:]]
    header, *lines = _print(
        capsys, ("shop/production", note, "ada@example.com", "2m ago", _ID), columns=columns
    )
    assert header.split() == ["Name", "Note", "ID"] and len(lines) == 2
    # A short text needs no room.
    header, *lines = _print(
        capsys, ("shop/production", "ok", "ada@example.com", "2m ago", _ID), columns=columns
    )
    assert header.split() == ["Name", "Note", "By", "When", "ID"] and len(lines) == 1
