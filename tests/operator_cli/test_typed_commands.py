"""Commands in messages begin with what a shell finds."""

from pathlib import Path

import pytest

from operator_cli import typed_commands
from operator_cli.typed_commands import find_program, typed_command


def _script(folder: Path) -> Path:
    folder.mkdir(parents=True)
    script = folder / "pharos"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


def test_what_starts_this_program(tmp_path: Path) -> None:
    ours = _script(tmp_path / "project" / ".venv" / "bin")
    other = _script(tmp_path / "other")
    spaced = _script(tmp_path / "my tools")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "pharos").symlink_to(ours)
    here = tmp_path / "project"
    for started, path, told in (
        (ours, str(ours.parent), "pharos"),
        (ours, str(linked), "pharos"),
        (ours, str(other.parent), ".venv/bin/pharos"),
        (ours, "", ".venv/bin/pharos"),
        (other, "", str(other)),
        (spaced, "", f"'{spaced}'"),
        (tmp_path / "missing" / "pharos", "", "pharos"),
        (tmp_path / "main.py", "", "pharos"),
    ):
        assert find_program(str(started), path, here) == told


def test_a_text_names_it_in_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Start `pharos up` first, or `pharos control`; `pharosx y` and pharos stay."
    monkeypatch.setattr(typed_commands, "program", lambda: "pharos")
    assert typed_commands.typed_commands(text) == text
    monkeypatch.setattr(typed_commands, "program", lambda: r".venv/bin/pharos\1")
    assert typed_commands.typed_commands(text) == (
        r"Start `.venv/bin/pharos\1 up` first, or `.venv/bin/pharos\1 control`; `pharosx y` and pharos stay."
    )
    assert typed_command(["tail", "--data", "a b"]) == r".venv/bin/pharos\1 tail --data 'a b'"
