"""The values that `pharos config plan` and `apply` bind to names in a document."""

import argparse
import io
from pathlib import Path
from typing import Any

import pytest

from control_api.schemas.load_schema import CONFIGURATION, WORKFLOW, load_schema
from operator_cli.configuration.document_arguments import (
    add_bindings,
    add_file_argument,
    read_document_body,
)
from operator_cli.errors import CommandFailed
from tests.support.commands import command_runner

SECRET = "hunter2"


def read(*given: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_file_argument(parser)
    add_bindings(parser)
    return read_document_body(parser.parse_args(given))


def refused(*given: str) -> str:
    with pytest.raises(CommandFailed) as refusal:
        read(*given)
    output = str(refusal.value)
    assert SECRET not in output
    return output


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "shop.yaml"
    path.write_text("version: 2\n")
    return str(path)


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Standard input."""
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))
    return content


def test_options_override_files_and_later_ones_override_earlier_ones(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.env", tmp_path / "second.env"
    first.write_text("A=first\nB=first\nC=first\nD=first\n")
    second.write_text("# of this machine\nB=second\nC=second\nD=second\n")
    monkeypatch.setenv("C", "environment")
    monkeypatch.setenv("A", "not asked for")
    files = ("--bind-file", str(first), "--bind-file", str(second))
    output = read(document, "--bind", "D=flag", *files, "--bind", "C", "--bind", "D=a=b ")
    assert output == {
        "document": "version: 2\n",
        "bindings": {"A": "first", "B": "second", "C": "environment", "D": "a=b "},
    }


def test_the_file_has_dotenv_syntax(document: str, tmp_path: Path) -> None:
    file = tmp_path / "bindings.env"
    file.write_text("export KEY=\"two\\nlines\"\nEMPTY=\nRAW='$x # y' # a comment\n")
    bindings = read(document, "--bind-file", str(file))["bindings"]
    assert bindings == {"KEY": "two\nlines", "EMPTY": "", "RAW": "$x # y"}
    assert read(document, "--bind", "EMPTY=")["bindings"] == {"EMPTY": ""}


def test_standard_input_is_read_once(document: str, stdin: io.BytesIO) -> None:
    stdin.write(b"A=piped\n")
    stdin.seek(0)
    assert read(document, "--bind-file", "-")["bindings"] == {"A": "piped"}
    stdin.seek(0)
    assert read("-")["document"] == "A=piped\n"
    output = "Standard input can be read once: name a file for the document or for its bindings."
    assert refused("-", "--bind-file", "-") == output
    assert refused(document, "--bind-file", "-", "--bind-file", "-") == output


def test_unreadable_bindings_are_refused_without_their_values(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bindings.env"
    file.write_text(f"A=1\n{SECRET}\nB='{SECRET}\n")
    assert refused(document, "--bind-file", str(file)).splitlines() == [
        "The bindings cannot be read.",
        f"{file}: line 2: there is no =",
        f"{file}: line 3: the single quote is not closed on its line",
    ]
    missing = str(tmp_path / "missing.env")
    assert (
        refused(document, "--bind-file", missing) == f"{missing} cannot be read: No such file or directory."
    )
    monkeypatch.delenv("A", raising=False)
    assert refused(document, "--bind", "A") == (
        "--bind A: there is no environment variable A. Set it, or write A=VALUE."
    )
    # A value whose name was forgotten must not be repeated.
    for given in (f"={SECRET}", f"{SECRET}!", f"1{SECRET}", f"{SECRET}-{SECRET}=x", "", "é=1", "A" * 101):
        assert refused(document, "--bind", given).startswith("--bind takes NAME=VALUE or NAME; ")
    assert refused(document, "--bind", f"A={SECRET}\udcff") == "--bind A: the value is not UTF-8 text."


def test_unreadable_documents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    assert refused(str(path)) == f"{path} cannot be read: No such file or directory."
    path.write_text("😀" * 50_000)
    assert read(str(path))["document"] == "😀" * 50_000
    path.write_text("😀" * 50_001)
    assert refused(str(path)) == f"{path} has more than 50,000 characters, which is the maximum."


def test_invalid_input_is_refused_before_any_request(tmp_path: Path) -> None:
    """Status 2 means that something changes, so failures have 1, and wrong arguments and settings 64."""
    run = command_runner(tmp_path)
    done = run("config", "plan", "missing.yaml")
    output = "pharos: missing.yaml cannot be read: No such file or directory.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", output)
    (tmp_path / "shop.yaml").write_text("version: 2\n")
    done = run("config", "plan", "shop.yaml", "--bind", "A")
    assert (done.returncode, done.stdout) == (1, "")
    done = run("config", "plan", "shop.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pharos: Not logged in.")
    for arguments, output in (
        ((), "the following arguments are required: VERB"),
        (("plam",), "there is no verb 'plam'. Did you mean 'plan'?"),
        (("plan",), "the following arguments are required: FILE"),
        (("plan", "shop.yaml", "--bogus"), "unrecognized arguments: --bogus"),
        (("--project", "plan", "shop.yaml"), "unrecognized arguments: --project"),
        (("plan", "shop.yaml", "--bind"), "expected one argument"),
        (("show", "newest"), "invalid int value"),
        (("apply",), "Name the document to apply, or a review with --review."),
        (("apply", "shop.yaml", "--review", "1"), "--review has the document and its bindings already"),
    ):
        done = run("config", *arguments)
        assert (done.returncode, done.stdout) == (64, "")
        assert output in done.stderr
    # All other commands use these statuses too.
    assert run("workflow", "show", "--bogus").returncode == 2


def test_the_help_documents_exit_statuses_and_secrets(tmp_path: Path) -> None:
    done = command_runner(tmp_path)("config", "plan", "--help")
    assert done.returncode == 0
    output = " ".join(done.stdout.split())
    assert "Exit status 0: nothing changes; 1: planning failed" in output
    assert "2: something changes; 64: wrong arguments or settings" in output
    assert "VALUE appears in lists of processes: for secrets use a file" in output


def test_schemas_are_printed_without_an_installation(tmp_path: Path) -> None:
    run = command_runner(tmp_path)
    for arguments, name in (
        ((), CONFIGURATION),
        (("configuration",), CONFIGURATION),
        (("workflow",), WORKFLOW),
    ):
        done = run("config", "schema", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.encode() == load_schema(name)
