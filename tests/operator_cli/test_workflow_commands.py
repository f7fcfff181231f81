"""`pharos workflow` on both kinds of installation."""

import json
import uuid
from pathlib import Path

import pytest

from tests.support.commands import Run, ask, refused, run_in, tell

TEXT = "version: 1\nprocesses:\n  web: {command: serve}  # Größe\nretain: 7\n"
BAD = "version: 1\nprocesses:\n  web: {comand: serve}\n"
FAULTS = ("3: processes.web.comand: unknown; do you mean command?", "3: processes.web.command: is missing")


@pytest.fixture
def project(pharos: Run) -> str:
    """The slug of a project of its own: commands of this file are run on the same installations."""
    made: str = ask(pharos, "project", "create", f"Workflow {uuid.uuid4().hex[:8]}")["slug"]
    return made


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A workflow."""
    path = tmp_path / "workflow.yaml"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize("pharos", ["socket", "engines"], indirect=True)
def test_a_workflow_through_its_commands(pharos: Run, project: str, file: str) -> None:
    mine = ("--project", project)
    told = tell(pharos, "workflow", "show", *mine)
    assert told == (
        f"The project {project} has no workflow yet. `pharos workflow set FILE --project {project}` sets one.\n"
    )
    told = tell(pharos, "workflow", "set", file, *mine)
    assert told == f"The project {project} has version 1 of its workflow, for its next deployment.\n"
    assert tell(pharos, "workflow", "show", *mine) == TEXT
    shown = ask(pharos, "workflow", "show", *mine)
    assert (shown["version"], shown["text"], shown["document"]["retain"]) == (1, TEXT, 7)
    assert ask(pharos, "workflow", "set", file, *mine)["version"] == 1
    done = pharos("workflow", "set", "-", *mine, "--json", stdin=TEXT.removesuffix("\n"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["version"] == 2
    # At a terminal, what comes next begins on a line of its own.
    assert tell(pharos, "workflow", "show", *mine) == TEXT
    (entry, *_) = ask(pharos, "audit", "--subject", shown["project"]["id"])
    assert (entry["action"], entry["details"]) == ("workflow.set", {"version": 2})


def test_faults_are_told_before_anything_is_set(pharos: Run, project: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    done = pharos("workflow", "set", str(bad), "--project", project)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"{bad}:{fault}" for fault in FAULTS]
    assert ask(pharos, "workflow", "show", "--project", project)["version"] is None


def test_what_cannot_be_is_one_sentence(pharos: Run, file: str) -> None:
    line = refused(pharos, "workflow", "set", file, "--project", "nowhere")
    assert line == "There is no project nowhere; `pharos project list` shows all."
    assert refused(pharos, "workflow", "show", "--project", "nowhere") == line


def test_checking_needs_nothing_that_runs(tmp_path: Path, file: str) -> None:
    run = run_in(tmp_path)
    assert tell(run, "workflow", "check", file) == f"{file} is a workflow.\n"
    assert ask(run, "workflow", "check", file)["document"]["processes"] == {"web": {"command": "serve"}}
    done = run("workflow", "check", "-", stdin=BAD)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"-:{fault}" for fault in FAULTS]
    done = run("workflow", "check", "-", "--json", stdin="- 1")
    assert (done.returncode, done.stderr) == (1, "")
    fault = {"path": "", "line": 1, "message": "must be a mapping, not a list"}
    assert json.loads(done.stdout) == {"faults": [fault]}
    done = run("workflow", "check", "-", stdin='version: 1\n"\\e[2J": 1\nprocesses: {a: {command: x}}')
    assert done.stderr.startswith("-:2: '\\x1b[2J': unknown; known are version,")


def test_files_that_cannot_be_read(tmp_path: Path, file: str) -> None:
    run = run_in(tmp_path)
    line = refused(run, "workflow", "check", "missing")
    assert line == "missing cannot be read: No such file or directory."
    path = tmp_path / "other.yaml"
    path.write_bytes(b"a: \xff\n")
    assert refused(run, "workflow", "check", str(path)) == f"{path} is not UTF-8 text: save it in UTF-8."
    told = "has more than 50,000 characters, which is the maximum."
    # As many characters as may be, of four bytes each, and one more.
    for text in ("🚀" * 50_001, "a" * 50_001, "é" * 100_001):
        path.write_text(text)
        assert refused(run, "workflow", "check", str(path)) == f"{path} {told}"
    path.write_text(f"{TEXT}#{'🚀' * (49_999 - len(TEXT))}")
    assert tell(run, "workflow", "check", str(path)) == f"{path} is a workflow.\n"
    # It has no end.
    assert refused(run, "workflow", "check", "/dev/zero") == f"/dev/zero {told}"


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
        ((), "the following arguments are required: ACTION"),
        (("set",), "the following arguments are required: FILE"),
        (("check",), "the following arguments are required: FILE"),
        (("show", "x"), "unrecognized arguments: x"),
    ):
        done = run_in(tmp_path)("workflow", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
