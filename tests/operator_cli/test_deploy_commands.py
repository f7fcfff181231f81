"""`pharos deploy`, `rollback` and `promote`, and how they follow the deployment.

On engines no deployer runs, so the tests write the rows that a deployer writes."""

import json
import os
import pty
import re
import signal
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from tests.support import deployment_rows
from tests.support.command_deployments import (
    StartCommand,
    WriteRows,
    deploy_and_finish,
    finish_deployment,
    make_environment,
    read_environment_number,
    wait_queued,
)
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text

# Reached only if something is wrong: a command may start and poll slowly on a busy machine.
_SECONDS = 120


@pytest.fixture
def environment_path(on_engines: RunCommand, write: WriteRows) -> str:
    """Return an environment that has a deployer.

    Without one, following commands print a warning after some seconds, which would be in the output of slow tests.
    """
    created = make_environment(on_engines)

    async def hold_lease(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.lease_environment(session, number, now)

    number = read_environment_number(on_engines, created)
    write(hold_lease)
    return created


def test_a_deploy_is_followed_until_it_is_live(
    on_engines: RunCommand, write: WriteRows, start: StartCommand, environment_path: str
) -> None:
    process = start("deploy", environment_path, "--ref", "v1")
    number = wait_queued(on_engines, environment_path)

    async def build(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, number, now)
        await deployment_rows.add_lines(session, number, now, "Building v1.")
        await deployment_rows.add_lines(session, number, now, "made [red] \x1b[31mred", stream="stdout")

    write(build)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(3)]
    assert seen == ["» Queued: v1.\n", "» Building v1.\n", "made [red]  [31mred\n"]
    write(lambda session, now: deployment_rows.complete_deployment(session, number, now))
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (0, "")
    live, end = out.splitlines()
    assert live == "» Live."
    assert re.fullmatch(
        rf"Deployment {number} is live at {re.escape(deployment_rows.ADDRESS)} after \d+\.\d s\.", end
    )
    output = run_text(on_engines, "logs", str(number))
    assert output.splitlines() == [*map(str.rstrip, seen), live]
    assert run_text(on_engines, "logs", "-n", "1", str(number)) == "» Live.\n"
    again = run_text(on_engines, "logs", "-f", str(number))
    assert again.splitlines() == [*output.splitlines(), end]
    deploy_and_finish(on_engines, write, environment_path)
    last = run_text(on_engines, "logs", "-f", str(number)).splitlines()[-1]
    assert last.endswith("; it is not live any more.")


def test_a_failure_is_reported_with_the_last_system_line(
    on_engines: RunCommand, write: WriteRows, start: StartCommand, environment_path: str
) -> None:
    process = start("deploy", environment_path)
    number = wait_queued(on_engines, environment_path)

    async def work(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, number, now)
        await deployment_rows.add_lines(session, number, now, "no such module", stream="stderr")
        await deployment_rows.fail_deployment(session, number, now, "A build step ended with 1: make all")

    write(work)
    out, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 1
    assert out.splitlines()[-2:] == ["no such module", "» A build step ended with 1: make all"]
    output = rf"pharos: Deployment {number} has failed after \d+\.\d s: A build step ended with 1: make all\n"
    assert re.fullmatch(output, err)


def test_json_is_one_object_a_line(
    on_engines: RunCommand, write: WriteRows, start: StartCommand, environment_path: str
) -> None:
    process = start("deploy", environment_path, "--json")
    number = wait_queued(on_engines, environment_path)

    async def work(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, number, now)
        await deployment_rows.add_lines(session, number, now, "one", stream="stdout")
        await deployment_rows.fail_deployment(session, number, now, "No.")

    write(work)
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (1, "")
    *lines, deployment = map(json.loads, out.splitlines())
    assert [(line["stream"], line["text"]) for line in lines] == [
        ("system", "Queued: main."),
        ("stdout", "one"),
        ("system", "No."),
    ]
    assert (deployment["id"], deployment["status"], deployment["is_live"]) == (number, "failed", False)
    output = run_json(on_engines, "logs", str(number))
    assert (output["deployment_id"], output["status"], output["truncated"]) == (number, "failed", False)
    assert [line["text"] for line in output["lines"]] == ["Queued: main.", "one", "No."]
    output = run_json(on_engines, "logs", str(number), "-n", "2")
    assert ([line["text"] for line in output["lines"]], output["truncated"]) == (["one", "No."], True)


def test_ctrl_c_does_not_end_the_deployment(
    on_engines: RunCommand, start: StartCommand, environment_path: str
) -> None:
    process = start("deploy", environment_path)
    number = wait_queued(on_engines, environment_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "» Queued: main.\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 130
    assert err == (
        f"\nDeployment {number} is still in progress: `pharos logs -f {number}` follows it, `pharos cancel {number}` "
        "cancels it.\n"
    )
    assert wait_queued(on_engines, environment_path) == number
    run_text(on_engines, "cancel", str(number), "--yes")
    assert refused_after(on_engines, "logs", "-f", str(number)) == f"Deployment {number} is canceled."


def refused_after(pharos: RunCommand, *command: str) -> str:
    """Return the error message of a command that has printed something before."""
    done = pharos(*command)
    assert done.returncode == 1
    return done.stderr.removeprefix("pharos: ").rstrip("\n")


def test_a_deployment_without_a_deployer_warns(
    on_engines: RunCommand, write: WriteRows, start: StartCommand, environment_path: str
) -> None:
    environment = read_environment_number(on_engines, environment_path)
    # Including the deployments of other tests.
    write(lambda session, now: deployment_rows.expire_leases(session, now))
    process = start("deploy", environment_path)
    number = wait_queued(on_engines, environment_path)
    assert process.stderr is not None
    output = "pharos: No deployer has begun yet. If none runs, start `pharos up` or `pharos deployer`.\n"
    assert process.stderr.readline() == output
    write(lambda session, now: deployment_rows.lease_environment(session, environment, now))
    finish_deployment(write, number)
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (0, "")
    assert f"Deployment {number} is live" in out


def test_a_terminal_shows_a_live_status_line(
    on_engines: RunCommand, write: WriteRows, start: StartCommand, environment_path: str
) -> None:
    ours, theirs = pty.openpty()
    process = start("deploy", environment_path, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    number = wait_queued(on_engines, environment_path)

    async def work(session: AsyncSession, now: datetime) -> None:
        await deployment_rows.begin_deployment(session, number, now)
        await deployment_rows.add_lines(session, number, now, "one", stream="stdout")

    write(work)
    seen = _read_until(ours, "building, ")
    assert f"Deployment {number} to {environment_path}: " in seen
    write(lambda session, now: deployment_rows.complete_deployment(session, number, now))
    seen += _read_until(ours, f" is live at {deployment_rows.ADDRESS} after ")
    # Read after the process has ended, because it still writes the end of that line.
    assert process.wait(_SECONDS) == 0
    os.close(ours)
    assert "» Queued: main." in seen and "one\r\n" in seen


def _read_until(terminal: int, text: str) -> str:
    seen = b""
    while text.encode() not in seen:
        seen += os.read(terminal, 65536)
    # The last character may be incomplete.
    return seen.decode(errors="replace")


def test_a_rollback_is_followed(
    on_engines: RunCommand, write: WriteRows, start: StartCommand, environment_path: str
) -> None:
    first, second = (deploy_and_finish(on_engines, write, environment_path) for _ in range(2))
    process = start("rollback", environment_path, "--json")
    number = wait_queued(on_engines, environment_path)
    finish_deployment(write, number)
    out, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0
    deployment = json.loads(out.splitlines()[-1])
    assert (deployment["trigger"], deployment["is_live"]) == ("rollback", True)
    assert f"the release of deployment {first} again" in out
    assert "there is nothing to roll back to." in expect_refusal(on_engines, "rollback", environment_path)
    other = make_environment(on_engines)
    line = expect_refusal(on_engines, "rollback", other, "--to", str(second), status=2)
    assert line.startswith(f"Deployment {second} did not go to {other}:")
    output = run_text(on_engines, "rollback", environment_path, "--to", str(second), "--detach")
    number = wait_queued(on_engines, environment_path)
    assert output == f"Deployment {number} is queued; `pharos logs -f {number}` follows it.\n"


def test_pushes_are_resumed_after_a_rollback(
    on_engines: RunCommand, write: WriteRows, environment_path: str
) -> None:
    output = run_text(on_engines, "environment", "resume", environment_path)
    assert output == f"No rollback keeps pushes from {environment_path}; nothing was changed.\n"
    first, _ = (deploy_and_finish(on_engines, write, environment_path) for _ in range(2))
    rollback = run_json(on_engines, "rollback", environment_path, "--to", str(first), "--detach")
    finish_deployment(write, rollback["id"])
    shown = run_text(on_engines, "environment", "show", environment_path)
    assert f"rolled back: no push deploys until `pharos environment resume {environment_path}`" in shown
    output = run_text(on_engines, "environment", "resume", environment_path)
    assert output == f"Pushes deploy to {environment_path} again, beginning with the next one.\n"
    assert "rolled back" not in run_text(on_engines, "environment", "show", environment_path)


def test_a_promotion_is_followed(on_engines: RunCommand, write: WriteRows, environment_path: str) -> None:
    project = environment_path.partition("/")[0]
    run_json(on_engines, "environment", "create", "Test", "--type", "staging", "--project", project)
    number = deploy_and_finish(on_engines, write, f"{project}/test")
    for what in (f"{project}/test", str(number)):
        output = run_json(on_engines, "promote", what, "--to", "live", "--note", "for the sale", "--detach")
        assert (output["promoted_from_build_id"], output["status"]) == (number, "queued")
        run_text(on_engines, "cancel", str(output["id"]), "--yes")
    newest = run_json(on_engines, "deployments", "--environment", environment_path, "--limit", "1")
    assert [deployment["note"] for deployment in newest] == ["for the sale"]
    table = run_text(on_engines, "deployments", "--environment", environment_path, "--wide")
    assert f"promoted from {number}" in table
    done = on_engines("promote", str(number), "--to", "test", "--detach")
    assert done.returncode == 1
    assert "target_environment_id: is not later than test" in done.stderr


def test_a_deployment_that_waits_for_approval_has_status_3(pharos: RunCommand) -> None:
    """No deployer starts it before the approval."""
    environment_path = make_environment(pharos, "--deploy-approval", "on")
    done = pharos("deploy", environment_path)
    assert (done.returncode, done.stderr) == (3, "")
    *log, output = done.stdout.splitlines()
    assert log == ["» Queued: main.", "» Waits for the approval of a second person."]
    number = re.findall(r"\d+", output)[0]
    waits = (
        f"Deployment {number} waits for a second person, who reviews it with `pharos approvals` and approves it with "
        f"`pharos approve deployment {number}`."
    )
    assert output == waits
    done = pharos("deploy", environment_path, "--ref", "v1", "--detach", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (3, "awaiting_approval")
    done = pharos("deploy", environment_path, "--ref", "v1", "--quiet")
    assert done.returncode == 3 and done.stdout.strip().isdecimal()
    done = pharos("logs", "-f", number)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, waits)


def test_impossible_requests_are_refused_with_the_next_step(pharos: RunCommand) -> None:
    environment_path = make_environment(pharos)
    run_json(pharos, "lock", environment_path, "--reason", "sale")
    done = pharos("deploy", environment_path, "--ref", "v1", "--detach")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pharos: The environment is locked by Owner: sale")
    assert "`pharos unlock` removes the lock." in done.stderr
    for command in (("rollback", environment_path), ("promote", environment_path, "--to", "live")):
        assert expect_refusal(pharos, *command) == (
            f"Nothing is live in {environment_path}: `pharos deploy {environment_path}` deploys to it."
        )
    for unknown in (("logs", "99999"), ("logs", "-f", "99999"), ("rollback", "--to", "99999")):
        line = expect_refusal(pharos, *unknown, status=5)
        assert line == "There is no deployment 99999; `pharos deployments` shows the newest."


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("rollback", "--to", "x"), "argument --to: invalid int value: 'x'"),
        (("promote", "7"), "the following arguments are required: --to"),
        (("promote", "--to", "live"), "the following arguments are required: DEPLOYMENT|ENVIRONMENT"),
        (("deploy", "a", "b"), "unrecognized arguments: b"),
        (("deploy", "--by", "ada@example.com"), "unrecognized arguments: --by"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
