"""Asking before something is destroyed or cut off."""

import argparse
import io

import pytest

from operator_cli.arguments import add_yes_argument, confirm
from operator_cli.errors import CommandFailed


class Terminal(io.StringIO):
    """Somebody types at it."""

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
def test_somebody_at_a_terminal_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, goes_on: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert confirm(arguments(), "remove project 3") is goes_on
    told = capsys.readouterr()
    asked = "This will remove project 3. Type yes to go on: "
    assert (told.out, told.err) == ("", asked + ("" if goes_on else "Nothing was changed.\n"))


def test_nobody_is_asked_where_it_is_said_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert confirm(arguments("--yes"), "remove project 3")
    assert capsys.readouterr().err == ""


def test_without_a_terminal_it_has_to_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where a yes waits in a pipe: it may be meant for something else."""
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(CommandFailed) as refusal:
        confirm(arguments(), "remove project 3")
    assert str(refusal.value) == (
        "Without a terminal nobody can be asked whether to remove project 3: add --yes to do it."
    )


def test_a_standard_input_that_is_closed_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(CommandFailed, match="add --yes to do it"):
        confirm(arguments(), "remove project 3")
