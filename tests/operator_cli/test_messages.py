"""`pharos …` commands in messages can be typed into a shell."""

import argparse
from pathlib import Path

import pytest

from operator_cli import messages
from operator_cli.messages import find_program, format_command, print_result, qualify_commands


def _script(folder: Path) -> Path:
    folder.mkdir(parents=True)
    script = folder / "pharos"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


def test_the_program_is_named_pharos_on_path_and_by_its_path_otherwise(tmp_path: Path) -> None:
    ours = _script(tmp_path / "project" / ".venv" / "bin")
    other = _script(tmp_path / "other")
    spaced = _script(tmp_path / "my tools")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "pharos").symlink_to(ours)
    here = tmp_path / "project"
    for started, path, name in (
        (ours, str(ours.parent), "pharos"),
        (ours, str(linked), "pharos"),
        (ours, str(other.parent), ".venv/bin/pharos"),
        (ours, "", ".venv/bin/pharos"),
        (other, "", str(other)),
        (spaced, "", f"'{spaced}'"),
        (tmp_path / "missing" / "pharos", "", "pharos"),
        (tmp_path / "main.py", "", "pharos"),
    ):
        assert find_program(str(started), path, here) == name


def test_each_command_in_a_text_is_qualified_with_the_program_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Start `pharos up` first, or `pharos control`; `pharosx y` and pharos stay."
    monkeypatch.setattr(messages, "program_name", lambda: "pharos")
    assert qualify_commands(text) == text
    monkeypatch.setattr(messages, "program_name", lambda: r".venv/bin/pharos\1")
    assert qualify_commands(text) == (
        r"Start `.venv/bin/pharos\1 up` first, or `.venv/bin/pharos\1 control`; `pharosx y` and pharos stay."
    )
    assert format_command(["tail", "--data", "a b"]) == r".venv/bin/pharos\1 tail --data 'a b'"


@pytest.mark.parametrize(
    ("result", "member", "printed"),
    [
        ({"id": 7, "key": "phr_k"}, "id", "7"),
        # A new secret is shown only now.
        ({"id": 7, "key": "phr_k"}, "key", "phr_k"),
        ({"id": 7, "key": {"id": 8, "key": "phr_k"}}, "key.key", "phr_k"),
        ([{"person": {"id": "per_1"}}, {"person": {"id": "per_2"}}], "person.id", "per_1 per_2"),
        ([{"name": "A"}, {"name": None}, {}], "name", "A"),
        ({"id": 7, "webhook": None}, "webhook.secret", "7"),
        ("text", "id", ""),
        (None, "id", ""),
    ],
)
def test_quiet_prints_one_member_of_each_row(
    capsys: pytest.CaptureFixture[str], result: object, member: str, printed: str
) -> None:
    quiet = argparse.Namespace(json=False, quiet=True)
    assert print_result(quiet, result, lambda _: None, quiet=member) == 0
    assert capsys.readouterr().out.split() == printed.split()
