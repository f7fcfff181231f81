"""`pharos deploy`, `rollback` and `promote`, and how they follow what they have queued.

Where it is carried out the rows are written here, as a deployer writes them: on engines none runs."""

import json
import os
import pty
import re
import signal
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.projects.choose import choose_environment
from tests.support import carried_out
from tests.support.commands import Run, ask, refused, run_in, tell
from tests.support.followed import (
    ASKER,
    Start,
    Write,
    carry_out,
    deploy,
    environment_number,
    make_place,
    queued,
)

# Of what nobody waits for where all is well: a command may take long to start, and longer to look again.
_SECONDS = 120


@pytest.fixture
def place(on_engines: Run, write: Write) -> str:
    """An environment that has a deployer: without one, whoever follows is told so after some seconds, and a test that
    is slow to write what the deployer writes would find that among what is printed."""
    made = make_place(on_engines)

    async def hold_lease(session: AsyncSession, now: datetime) -> None:
        await carried_out.hold_lease(session, (await choose_environment(session, made)).id, now)

    write(hold_lease)
    return made


def test_a_deploy_is_followed_until_it_is_live(
    on_engines: Run, write: Write, start: Start, place: str
) -> None:
    process = start("deploy", place, "--ref", "v1")
    number = queued(on_engines, place)

    async def build(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, number, now)
        await carried_out.say(session, number, now, "Building v1.")
        await carried_out.say(session, number, now, "made [red] \x1b[31mred", stream="stdout")

    write(build)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(3)]
    assert seen == ["» Queued: v1.\n", "» Building v1.\n", "made [red]  [31mred\n"]
    write(lambda session, now: carried_out.bring_live(session, number, now))
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (0, "")
    live, end = out.splitlines()
    assert live == "» Live."
    assert re.fullmatch(
        rf"Deployment {number} is live at {re.escape(carried_out.ADDRESS)} after \d+\.\d s\.", end
    )
    told = tell(on_engines, "logs", str(number))
    assert told.splitlines() == [*map(str.rstrip, seen), live]
    assert tell(on_engines, "logs", "-n", "1", str(number)) == "» Live.\n"
    again = tell(on_engines, "logs", "-f", str(number))
    assert again.splitlines() == [*told.splitlines(), end]
    deploy(on_engines, write, place)
    last = tell(on_engines, "logs", "-f", str(number)).splitlines()[-1]
    assert last.endswith("; it is not live any more.")


def test_a_failure_is_told_with_its_last_words(
    on_engines: Run, write: Write, start: Start, place: str
) -> None:
    process = start("deploy", place)
    number = queued(on_engines, place)

    async def work(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, number, now)
        await carried_out.say(session, number, now, "no such module", stream="stderr")
        await carried_out.fail(session, number, now, "A build step ended with 1: make all")

    write(work)
    out, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 1
    assert out.splitlines()[-2:] == ["no such module", "» A build step ended with 1: make all"]
    told = rf"pharos: Deployment {number} has failed after \d+\.\d s: A build step ended with 1: make all\n"
    assert re.fullmatch(told, err)


def test_json_is_one_object_a_line(on_engines: Run, write: Write, start: Start, place: str) -> None:
    process = start("deploy", place, "--json")
    number = queued(on_engines, place)

    async def work(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, number, now)
        await carried_out.say(session, number, now, "one", stream="stdout")
        await carried_out.fail(session, number, now, "No.")

    write(work)
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (1, "")
    *lines, deployment = map(json.loads, out.splitlines())
    assert [(line["stream"], line["text"]) for line in lines] == [
        ("system", "Queued: main."),
        ("stdout", "one"),
        ("system", "No."),
    ]
    assert (deployment["id"], deployment["status"], deployment["step"]) == (number, "failed", "build")
    told = ask(on_engines, "logs", str(number))
    assert (told["deployment"], told["truncated"]) == (deployment, False)
    assert [line["text"] for line in told["lines"]] == ["Queued: main.", "one", "No."]


def test_ctrl_c_ends_the_following_only(on_engines: Run, start: Start, place: str) -> None:
    process = start("deploy", place)
    number = queued(on_engines, place)
    assert process.stdout is not None
    assert process.stdout.readline() == "» Queued: main.\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=_SECONDS)
    assert process.returncode == 130
    assert err == (
        f"\nDeployment {number} is still in progress: `pharos logs -f {number}` follows it, `pharos cancel {number}` "
        "cancels it.\n"
    )
    assert queued(on_engines, place) == number
    tell(on_engines, "cancel", str(number), "--yes")
    assert refused_after(on_engines, "logs", "-f", str(number)) == f"Deployment {number} is canceled."


def refused_after(pharos: Run, *command: str) -> str:
    """The sentence with which a command ends that has printed something."""
    done = pharos(*command)
    assert done.returncode == 1
    return done.stderr.removeprefix("pharos: ").rstrip("\n")


def test_a_deployment_that_nobody_takes_up(on_engines: Run, write: Write, start: Start, place: str) -> None:
    environment = environment_number(on_engines, place)
    # Those of the other tests here as well.
    write(lambda session, now: carried_out.end_leases(session, now))
    process = start("deploy", place)
    number = queued(on_engines, place)
    assert process.stderr is not None
    told = "pharos: No deployer seems to be running: start `pharos up` or `pharos deployer`.\n"
    assert process.stderr.readline() == told
    write(lambda session, now: carried_out.hold_lease(session, environment, now))
    carry_out(write, number)
    out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (0, "")
    assert f"Deployment {number} is live" in out


def test_a_terminal_has_a_line_that_is_alive(on_engines: Run, write: Write, start: Start, place: str) -> None:
    ours, theirs = pty.openpty()
    process = start("deploy", place, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    number = queued(on_engines, place)

    async def work(session: AsyncSession, now: datetime) -> None:
        await carried_out.begin(session, number, now)
        await carried_out.say(session, number, now, "one", stream="stdout")

    write(work)
    seen = _read_until(ours, "building, ")
    assert f"Deployment {number} to {place}: " in seen
    write(lambda session, now: carried_out.bring_live(session, number, now))
    seen += _read_until(ours, f" is live at {carried_out.ADDRESS} after ")
    # Not before it has ended: it still writes the end of that line.
    assert process.wait(_SECONDS) == 0
    os.close(ours)
    assert "» Queued: main." in seen and "one\r\n" in seen


def _read_until(terminal: int, text: str) -> str:
    seen = b""
    while text.encode() not in seen:
        seen += os.read(terminal, 65536)
    # The last character may have come in part.
    return seen.decode(errors="replace")


def test_a_rollback_is_followed(on_engines: Run, write: Write, start: Start, place: str) -> None:
    first, second = (deploy(on_engines, write, place) for _ in range(2))
    process = start("rollback", place, "--json")
    number = queued(on_engines, place)
    carry_out(write, number)
    out, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0
    deployment = json.loads(out.splitlines()[-1])
    assert (deployment["trigger"], deployment["is_live"]) == ("rollback", True)
    assert f"the release of deployment {first} again" in out
    assert "there is nothing to go back to." in refused(on_engines, "rollback", place)
    told = tell(on_engines, "rollback", place, "--to", str(second), "--detach")
    number = queued(on_engines, place)
    assert told == f"Deployment {number} is queued; `pharos logs -f {number}` follows it.\n"


def test_a_promotion(on_engines: Run, write: Write, place: str) -> None:
    project = place.partition("/")[0]
    ask(on_engines, "environment", "create", "Test", "--type", "staging", "--project", project)
    number = deploy(on_engines, write, f"{project}/test")
    for what in (f"{project}/test", str(number)):
        told = ask(on_engines, "promote", what, "--to", "live", "--note", "for the sale", "--detach")
        assert (told["promoted_from_build_id"], told["note"], told["status"]) == (
            number,
            "for the sale",
            "queued",
        )
        tell(on_engines, "cancel", str(told["id"]), "--yes")
    assert "promote to one of a higher order." in refused(
        on_engines, "promote", str(number), "--to", "test", "--detach"
    )


@pytest.mark.parametrize("pharos", ["socket", "engines"], indirect=True)
def test_what_waits_for_a_second_person(pharos: Run) -> None:
    """Nothing is taken up before one has agreed, so this holds where a deployer runs, too."""
    place = make_place(pharos, "--deploy-approval", "on")
    assert refused(pharos, "deploy", place).endswith("say who asks for it with --by EMAIL.")
    done = pharos("deploy", place, "--by", ASKER)
    assert (done.returncode, done.stderr) == (3, "")
    *log, told = done.stdout.splitlines()
    assert log == ["» Queued: main.", "» Waits for the approval of a second person."]
    number = re.findall(r"\d+", told)[0]
    waits = (
        f"Deployment {number} waits for a second person. Look at it with `pharos approvals`, then approve it with "
        f"`pharos approve deployment {number} --by EMAIL`."
    )
    assert told == waits
    done = pharos("deploy", place, "--by", ASKER, "--ref", "v1", "--detach", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (3, "awaiting_approval")
    done = pharos("logs", "-f", number)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, waits)


def test_a_deploy_to_a_locked_environment(pharos: Run) -> None:
    place = make_place(pharos)
    ask(pharos, "lock", place, "--reason", "sale")
    for command in ("deploy", place), ("deploy", place, "--ref", "v1", "--detach"):
        assert refused(pharos, *command).startswith("The environment is locked by an operator: sale;")
    assert refused(pharos, "rollback", place).startswith(f"Nothing is live in {place}:")
    assert refused(pharos, "promote", place, "--to", "live").startswith(f"Nothing is live in {place}:")
    assert "There is no deployment 99999;" in refused(pharos, "logs", "99999")
    assert "There is no deployment 99999;" in refused(pharos, "logs", "-f", "99999")


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
        (("rollback", "--to", "x"), "argument --to: invalid int value: 'x'"),
        (("promote", "7"), "the following arguments are required: --to"),
        (("promote", "--to", "live"), "the following arguments are required: DEPLOYMENT|ENVIRONMENT"),
        (("deploy", "a", "b"), "unrecognized arguments: b"),
    ):
        done = run_in(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
    done = run_in(tmp_path)("deploy")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pharos: Nothing runs on .pharos.")
