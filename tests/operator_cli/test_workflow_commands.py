"""`pharos workflow` on a running `pharos up`."""

import json
import uuid
from pathlib import Path

import pytest

from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text

TEXT = "version: 1\nprocesses:\n  web: {command: serve}  # Größe\nretain: 7\n"
BAD = "version: 1\nprocesses:\n  web: {comand: serve}\n"
FAULTS = ("3: processes.web.comand: unknown; do you mean command?", "3: processes.web.command: is missing")


@pytest.fixture
def project(pharos: RunCommand) -> str:
    """The slug of a new project: the tests of this file share their installations."""
    created: str = run_json(pharos, "project", "create", f"Workflow {uuid.uuid4().hex[:8]}")["slug"]
    return created


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The path of a workflow document."""
    path = tmp_path / "workflow.yaml"
    path.write_text(TEXT)
    return str(path)


def test_a_workflow_is_set_and_shown(pharos: RunCommand, project: str, file: str) -> None:
    mine = ("--project", project)
    output = run_text(pharos, "workflow", "show", *mine)
    assert output == (
        f"The project {project} has no workflow yet. `pharos workflow set FILE --project {project}` sets one; "
        "without one, the pharos.yaml of the repository applies.\n"
    )
    output = run_text(pharos, "workflow", "set", file, *mine)
    assert output == f"The project {project} has version 1 of its workflow, for its next deployment.\n"
    assert run_text(pharos, "workflow", "show", *mine) == TEXT
    shown = run_json(pharos, "workflow", "show", *mine)
    assert (shown["version"], shown["text"], shown["document"]["retain"]) == (1, TEXT, 7)
    assert run_json(pharos, "workflow", "set", file, *mine) == shown["document"]
    done = pharos("workflow", "set", "-", *mine, "--json", stdin=TEXT.removesuffix("\n"))
    assert (done.returncode, done.stderr) == (0, "")
    assert run_json(pharos, "workflow", "show", *mine)["version"] == 2
    # On a terminal the next prompt starts on a new line.
    assert run_text(pharos, "workflow", "show", *mine) == TEXT


def test_faults_are_reported_before_anything_is_set(pharos: RunCommand, project: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    done = pharos("workflow", "set", str(bad), "--project", project)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"{bad}:{fault}" for fault in FAULTS]
    done = pharos("workflow", "set", str(bad), "--project", project, "--json")
    assert (done.returncode, [fault["line"] for fault in json.loads(done.stdout)["faults"]]) == (1, [3, 3])
    assert run_json(pharos, "workflow", "show", "--project", project) is None


def test_impossible_requests_fail_with_one_sentence(pharos: RunCommand, file: str) -> None:
    line = expect_refusal(pharos, "workflow", "set", file, "--project", "nowhere", status=5)
    assert line.startswith("There is no project 'nowhere'.")
    assert expect_refusal(pharos, "workflow", "show", "--project", "nowhere", status=5) == line


def test_checking_needs_no_installation(tmp_path: Path, file: str) -> None:
    run = command_runner(tmp_path)
    assert run_text(run, "workflow", "check", file) == f"{file} is a workflow.\n"
    assert run_json(run, "workflow", "check", file)["document"]["processes"] == {"web": {"command": "serve"}}
    done = run("workflow", "check", "-", stdin=BAD)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"-:{fault}" for fault in FAULTS]
    done = run("workflow", "check", "-", "--json", stdin="- 1")
    assert (done.returncode, done.stderr) == (1, "")
    fault = {"path": "", "line": 1, "message": "must be a mapping, not a list"}
    assert json.loads(done.stdout) == {"faults": [fault]}
    done = run("workflow", "check", "-", stdin='version: 1\n"\\e[2J": 1\nprocesses: {a: {command: x}}')
    assert done.stderr.startswith("-:2: '\\x1b[2J': unknown; known are version,")


def test_unreadable_files_are_refused(tmp_path: Path, file: str) -> None:
    run = command_runner(tmp_path)
    line = expect_refusal(run, "workflow", "check", "missing")
    assert line == "missing cannot be read: No such file or directory."
    path = tmp_path / "other.yaml"
    path.write_bytes(b"a: \xff\n")
    assert (
        expect_refusal(run, "workflow", "check", str(path)) == f"{path} is not UTF-8 text: save it in UTF-8."
    )
    output = "has more than 50,000 characters, which is the maximum."
    # The maximum number of characters, of four bytes each, and one more.
    for text in ("🚀" * 50_001, "a" * 50_001, "é" * 100_001):
        path.write_text(text)
        assert expect_refusal(run, "workflow", "check", str(path)) == f"{path} {output}"
    path.write_text(f"{TEXT}#{'🚀' * (49_999 - len(TEXT))}")
    assert run_text(run, "workflow", "check", str(path)) == f"{path} is a workflow.\n"
    # An endless file.
    assert expect_refusal(run, "workflow", "check", "/dev/zero") == f"/dev/zero {output}"


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        ((), "the following arguments are required: VERB"),
        (("set",), "the following arguments are required: FILE"),
        (("check",), "the following arguments are required: FILE"),
        (("show", "x"), "unrecognized arguments: x"),
    ):
        done = command_runner(tmp_path)("workflow", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
