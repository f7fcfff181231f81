"""The question before a destructive command."""

import argparse
import io

import pytest

from operator_cli.arguments import add_yes_argument, confirm
from operator_cli.errors import CommandFailed


class Terminal(io.StringIO):
    """Standard input with a person who types at a terminal."""

    def isatty(self) -> bool:
        return True


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_yes_argument(parser)
    return parser.parse_args(given)


@pytest.mark.parametrize(
    ("typed", "goes_on"),
    [("yes\n", True), (" YES \n", True), ("y\n", False), ("no\n", False), ("\n", False), ("", False)],
)
def test_a_person_at_a_terminal_is_asked_to_confirm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, goes_on: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert confirm(arguments(), "remove project 3") is goes_on
    output = capsys.readouterr()
    asked = "This will remove project 3. Type yes to go on: "
    assert (output.out, output.err) == ("", asked + ("" if goes_on else "Nothing was changed.\n"))


def test_yes_skips_the_question(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert confirm(arguments("--yes"), "remove project 3")
    assert capsys.readouterr().err == ""


def test_without_a_terminal_yes_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """A yes in a pipe does not count: it may be meant for another program."""
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(CommandFailed) as refusal:
        confirm(arguments(), "remove project 3")
    assert str(refusal.value) == (
        "Without a terminal, pharos cannot ask whether to remove project 3: add --yes to do it."
    )


def test_a_closed_standard_input_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(CommandFailed, match="add --yes to do it"):
        confirm(arguments(), "remove project 3")
