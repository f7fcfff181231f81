"""`pharos config` on a running `pharos up`, which applies documents."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.command_deployments import StartCommand
from tests.support.commands import RunCommand, expect_refusal, run_json, run_text
from tests.support.configured import SECRET, Given, applied, make_project, write_document
from tests.support.platform_process import PlatformProcess
from tests.support.second_person import as_second_owner

DRAWN = """\
+ environments.live
    + type: production
    + variables.URL: ••• DIGEST

+ environments.live.heartbeats.nightly
    + cron: "0 3 * * *"
    + grace: 30m

+ environments.live.queues.default

3 to create, 0 to change, 0 to delete.
"""
MADE = """\
succeeded  + environments.live
succeeded  + environments.live.heartbeats.nightly
succeeded  + environments.live.queues.default
"""


@pytest.fixture
def live(on_socket: PlatformProcess) -> str:
    """The slug of a new project."""
    return make_project(on_socket.run)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Write a document and its bindings, and return their paths."""
    return write_document(tmp_path)


def without_digests(text: str) -> str:
    """Replace the digest after each mask in a printed plan with DIGEST."""
    words = [line.split("••• ") for line in text.split("\n")]
    return "\n".join("••• DIGEST".join([parts[0], *(part[8:] for part in parts[1:])]) for parts in words)


def apply(pharos: RunCommand, *arguments: str) -> str:
    """Return the output of `config apply --yes`."""
    done = pharos("config", "apply", *arguments, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_exit_status_of_a_plan_shows_whether_something_changes(
    on_socket: PlatformProcess, live: str, given: Given, tmp_path: Path
) -> None:
    pharos, mine = on_socket.run, ("--project", live)
    done = pharos("config", "plan", *given, *mine)
    assert (done.returncode, done.stderr) == (2, "")
    assert without_digests(done.stdout) == DRAWN
    done = pharos("config", "plan", *given, *mine, "--json")
    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads(done.stdout)["summary"]["create"] == 3
    assert SECRET not in done.stdout
    (tmp_path / "same.yaml").write_text("version: 2\n")
    done = pharos("config", "plan", str(tmp_path / "same.yaml"), *mine)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"No changes: {live} matches the document.\n"
    assert run_json(pharos, "config", "plan", str(tmp_path / "same.yaml"), *mine)["actions"] == []
    assert run_json(pharos, "project", "show", live)["environments"] == []


def test_a_refused_document_has_a_line_for_each_fault(
    on_socket: PlatformProcess, live: str, given: Given, tmp_path: Path
) -> None:
    pharos, mine = on_socket.run, ("--project", live)
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 2\nenvironmets: {}\nenvironments:\n  live: {type: production, replicas: 0}\n")
    for command in ("plan", "apply"):
        done = pharos("config", command, str(bad), *mine)
        assert (done.returncode, done.stdout) == (1, "")
        head, *faults = done.stderr.splitlines()
        assert head == "pharos: The document is not valid:"
        assert [fault.partition(": ")[0] for fault in faults] == [f"  {bad}:2", f"  {bad}:4"]
        done = pharos("config", command, given[0], "--bind", f"other={SECRET}", *mine)
        assert (done.returncode, done.stdout) == (1, "")
        head, *faults = done.stderr.splitlines()
        assert head == "pharos: The bindings are not valid:"
        assert [fault.partition(": ")[0] for fault in faults] == ["  url", "  other"]
        assert SECRET not in done.stderr
    long = tmp_path / "long.yaml"
    long.write_text(f"version: 2\n# {'x' * 50_000}\n")
    done = pharos("config", "plan", str(long), *mine)
    assert (done.returncode, done.stdout) == (1, "")
    assert "50,000" in done.stderr
    line = expect_refusal(pharos, "config", "plan", given[0], "--project", "nowhere")
    assert line.startswith("There is no project 'nowhere'.")
    line = "There is no application 999999; `pharos config applications` lists the newest."
    assert expect_refusal(pharos, "config", "show", "999999") == line
    assert expect_refusal(pharos, "config", "retry", "999999", "1") == line
    output = run_text(pharos, "config", "applications", *mine)
    assert output == "No applications yet. `pharos config apply FILE` makes one.\n"


def test_a_document_is_planned_and_applied(on_socket: PlatformProcess, live: str, given: Given) -> None:
    run, mine = on_socket.run, ("--project", live)
    output = apply(run, *given, *mine)
    number = applied(run, live)["id"]
    assert without_digests(output) == f"{DRAWN}{MADE}Application {number} has succeeded.\n"
    done = run("config", "plan", *given, *mine)
    assert (done.returncode, done.stdout) == (0, f"No changes: {live} matches the document.\n")
    output = apply(run, *given, *mine)
    assert output == f"No changes: {live} matches the document.\n"
    assert json.loads(apply(run, *given, *mine, "--json")) is None
    shown = run_json(run, "variables", "show", f"{live}/live")["variables"]
    assert [each["name"] for each in shown] == ["URL"]
    assert [one["name"] for one in run_json(run, "heartbeat", "list") if one["name"] == "nightly"]
    (listed,) = run_json(run, "config", "applications", *mine)
    assert (listed["id"], listed["counts"]) == (number, {"succeeded": 3})
    output = run_text(run, "config", "applications", *mine)
    assert " ".join(output.splitlines()[1].split()).startswith(f"{number} {live} succeeded 3 succeeded ")
    shown = run_text(run, "config", "show", str(number))
    assert shown.startswith(f"Application {number} of {live}: succeeded\nreview ")
    first = applied(run, live)["operations"][0]["id"]
    assert f"\nOperation {first}: succeeded\n+ environments.live\n    + type: production\n" in shown
    assert SECRET not in shown + output
    line = expect_refusal(run, "config", "retry", str(number), str(first))
    assert (
        line
        == f"Operation {first} is succeeded: only an operation that is canceled or failed can be retried."
    )


def test_apply_prints_the_finished_run_as_json(on_socket: PlatformProcess, live: str, given: Given) -> None:
    run = on_socket.run
    output = json.loads(apply(run, *given, "--project", live, "--json"))
    assert output["status"] == "succeeded"
    assert [(one["action"], one["status"]) for one in output["operations"]] == [("create", "succeeded")] * 3
    assert output == run_json(run, "config", "show", str(output["id"]))
    assert SECRET not in json.dumps(output)


def test_a_plan_shows_removed_resources(
    on_socket: PlatformProcess, live: str, given: Given, tmp_path: Path
) -> None:
    run, mine = on_socket.run, ("--project", live)
    apply(run, *given, *mine)
    less = tmp_path / "less.yaml"
    less.write_text(
        "version: 2\nenvironments:\n  live: {replicas: 2, variables: {URL: '${new}'}}\n"
        "delete: [environments.live.queues.default]\n"
    )
    done = run("config", "plan", str(less), "--bind", "new=other", *mine)
    assert (done.returncode, done.stderr) == (2, "")
    assert without_digests(done.stdout) == (
        """\
~ environments.live
    ~ replicas: 1 → 2
    ~ variables.URL: ••• DIGEST → ••• DIGEST

- environments.live.queues.default

0 to create, 1 to change, 1 to delete.

The document does not mention these, and they stay unchanged:
    environments.live.heartbeats.nightly
To remove a resource, a variable or a goal, list it under delete: in the document; to change anything else, set \
it there.
"""
    )
    before, after = (part.split()[0] for part in done.stdout.split("••• ")[1:])
    assert before != after
    done = run("config", "apply", str(less), "--bind", "new=other", *mine, "--json", stdin="yes\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("~ environments.live\n    ~ replicas: 1 → 2\n")
    assert done.stderr.endswith(
        "pharos: Without a terminal, pharos cannot ask whether to create 0, change 1 and delete 1 resources of "
        f"{live}: add --yes to do it.\n"
    )
    assert run_json(run, "config", "applications", *mine)[0]["counts"] == {"succeeded": 3}


def test_a_change_of_variables_waits_for_a_second_person(
    on_socket: PlatformProcess, live: str, given: Given
) -> None:
    run, mine = on_socket.run, ("--project", live)
    run_json(run, "environment", "create", "Live", "--type", "production", *mine)
    run_json(run, "environment", "set", f"{live}/live", "--variable-approval", "on")
    output = apply(run, *given, *mine)
    number = run_json(run, "environment", "show", f"{live}/live")["waiting"]["variable_changes"][0]
    assert output.splitlines()[-1] == (
        f"{live}/live: change {number} of its variables waits for a second person: `pharos approve variables {number}`."
    )
    assert f"variables {number}" in run_text(run, "approvals", "--quiet").splitlines()
    done = run("config", "plan", *given, *mine)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "These wait for a second person (`pharos approvals`); the plan assumes that they are approved:\n"
        "    environments.live.variables\n"
    ) in done.stdout


def test_a_second_person_applies_a_review_that_lowers_a_gate(
    on_socket: PlatformProcess, live: str, tmp_path: Path
) -> None:
    run, mine = on_socket.run, ("--project", live)
    run_json(run, "environment", "create", "Live", "--type", "production", *mine)
    run_json(run, "environment", "set", f"{live}/live", "--deploy-approval", "on")
    document = tmp_path / "lower.yaml"
    document.write_text("version: 2\nenvironments: {live: {approval: {deploys: false}}}\n")
    done = run("config", "apply", str(document), *mine, "--yes")
    assert (done.returncode, done.stderr) == (3, "")
    *_, detail, advice = done.stdout.splitlines()
    assert "takes away the approval of deploys of environments.live" in detail
    found = re.search("`pharos config (apply --review ([0-9]+) --project .*)`", advice)
    assert found is not None
    number = found[2]
    line = expect_refusal(run, "config", "apply", "--review", number, "--yes", "--json")
    assert line.startswith(f"Review {number} takes away the approval of deploys")
    second = as_second_owner(on_socket, tmp_path)
    done = second("config", *found[1].split(), "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "~ approval.deploys: true → false" in done.stdout and done.stdout.endswith("has succeeded.\n")
    done = second("config", "apply", "--review", number, "--yes")
    assert done.returncode == 1 and "application" in done.stderr
    done = run("config", "apply", "--review", "999999", "--yes")
    assert done.stderr == "pharos: There is no review 999999; `pharos config apply FILE` makes one.\n"


def test_an_export_changes_nothing(
    on_socket: PlatformProcess, live: str, given: Given, tmp_path: Path
) -> None:
    run, mine = on_socket.run, ("--project", live)
    apply(run, *given, *mine)
    exported = run_text(run, "config", "export", *mine)
    assert "URL" in exported and SECRET not in exported
    done = run("config", "plan", "-", *mine, stdin=exported)
    assert (done.returncode, done.stdout) == (0, f"No changes: {live} matches the document.\n")
    into = tmp_path / "exported.yaml"
    output = run_text(run, "config", "export", *mine, "-o", str(into))
    assert output == f"{into} is the document of {live}.\n"
    assert into.read_text() == exported
    assert into.stat().st_mode & 0o777 == 0o644
    into.write_text("mine" * 10_000)
    line = expect_refusal(run, "config", "export", *mine, "-o", str(into))
    assert line == f"{into} exists already: name another file, or overwrite it with --force."
    assert into.read_text() == "mine" * 10_000
    run_text(run, "config", "export", *mine, "-o", str(into), "--force")
    assert into.read_text() == exported
    line = expect_refusal(run, "config", "export", *mine, "-o", str(tmp_path))
    assert "name another file" in line
    line = expect_refusal(run, "config", "export", *mine, "-o", str(tmp_path / "no" / "such"))
    assert line == f"{tmp_path / 'no' / 'such'} cannot be written: No such file or directory."
    assert run_json(run, "config", "export", *mine)["document"] == exported


def test_an_export_that_is_too_long_gives_advice(
    on_socket: PlatformProcess, live: str, tmp_path: Path
) -> None:
    run, mine = on_socket.run, ("--project", live)
    run_json(run, "environment", "create", "Live", "--type", "production", *mine)
    many = tmp_path / "many.env"
    many.write_text("".join(f"{'A' * 100}_{number}=1\n" for number in range(1000)))
    run_json(run, "variables", "set", f"{live}/live", str(many))
    done = run("config", "export", *mine)
    assert done.returncode == 0
    assert done.stderr == (
        "pharos: This document cannot be planned as it is: line 1: has more than 50,000 characters. "
        "Split it into several documents: each leaves unchanged what it does not mention.\n"
    )


def test_a_closed_pipe_is_a_failure_for_plans(
    on_socket: PlatformProcess, start: StartCommand, live: str, given: Given
) -> None:
    """Status 0 would mean that nothing changes."""
    reading, writing = os.pipe()
    os.close(reading)
    for command in (("plan",), ("apply", "--yes"), ("plan", "--json")):
        arguments = ("config", *command, *given, "--project", live)
        process = start(*arguments, socket=True, stdout=writing, stderr=subprocess.DEVNULL)
        assert process.wait(120) == 1
    os.close(writing)
    assert run_json(on_socket.run, "config", "applications", "--project", live) == []
