"""Takeover of processes from a former deployer: an application with a forged mark gets neither the port nor the
requests of another application, and does not end its processes."""

import os
import random
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from deployer.drivers.interface import LastLive
from deployer.drivers.local import orphans as orphans_module
from deployer.drivers.local.driver import LocalDriver
from deployer.drivers.local.instance import Mark
from deployer.drivers.local.orphans import choose_orphans
from deployer.identity import Identity
from deployer.listeners.owners import ListenerOwners, Verdict
from deployer.processes.confinement import Confinement, Limits, Owner
from deployer.processes.marks import MarkedProcess, StillRunning, end_marked, find_marked
from deployer.processes.process_table import Marks
from deployer.processes.start_process import has_namespaces, start_process
from deployer.traffic.interface import Target
from tests.deployer.processes.sandbox import PYTHON, wait_until
from tests.support.engines import free_port

VICTIM, ATTACKER = 7, 8
RUNNERS = {VICTIM: 107, ATTACKER: 108}
PORT = 21_007


def _process(pid: int, uid: int, *, is_sealed: bool = False, is_leader: bool = True) -> MarkedProcess:
    return MarkedProcess(pid, is_leader, pid, uid, is_sealed)


def _choose(
    marked: dict[str, list[MarkedProcess]], *, listening: int | None = None, runners: dict[int, int] = RUNNERS
) -> dict[str, int]:
    chosen = choose_orphans(marked, runners.get, {PORT: listening}.get)
    return {str(mark): process.pid for mark, process in chosen.items()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dpl_x/",
        "dpl_x/7/",
        "dpl_x/step/107",
        "dpl_x/git/107",
        "dpl_x/7/107/web/0/65536",
        "dpl_x/7/107/web/0/021007",
        "dpl_x/7/107/web/0/-1",
        "dpl_x/7/107/web/0/21_007",
        "dpl_x/7/107/web/0/ 21007",
        "dpl_x/7/107/web/0/２１００７",
        "dpl_x/7/107/web/0/21007\n",
        "dpl_x/7/107/\x1b[2Jweb/0/21007",
        f"dpl_x/{'9' * 30}/107/web/0/21007",
    ],
)
def test_a_malformed_mark_is_not_read(text: str) -> None:
    assert Mark.read(text) is None
    assert _choose({text: [_process(1, RUNNERS[VICTIM])]}) == {}


def test_the_mark_of_an_instance_survives_writing_and_reading() -> None:
    mark = Mark("dpl_x", 7, 107, "web-2", 0, 0)
    assert Mark.read(str(mark)) == mark


def test_only_the_command_of_the_right_user_is_taken_over() -> None:
    mark = "dpl_x/7/107/web/0/21007"
    worker, stranger = _process(1, 107, is_leader=False), _process(2, 108)
    assert _choose({mark: [worker, stranger, _process(3, 107), _process(4, 107)]}) == {mark: 3}
    # A mark that no program can write takes precedence over an older claim.
    assert _choose({mark: [_process(3, 107), _process(4, 107, is_sealed=True)]}) == {mark: 4}
    assert _choose({mark: [worker, stranger]}) == {}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "is_sealed, listening, chosen_numbers",
    [
        (True, None, [VICTIM]),
        (True, RUNNERS[ATTACKER], [VICTIM]),
        (False, RUNNERS[VICTIM], [VICTIM]),
        (False, RUNNERS[ATTACKER], [ATTACKER]),
        (False, None, []),
    ],
)
def test_at_most_one_of_two_environments_gets_a_claimed_port(
    is_first: bool, is_sealed: bool, listening: int | None, chosen_numbers: list[int]
) -> None:
    """The mount namespace decides, then the listener: an instance that does not listen gets no requests anyway."""
    marks = {VICTIM: f"dpl_x/7/107/web/0/{PORT}", ATTACKER: f"dpl_x/8/999/web/0/{PORT}"}
    marked = {
        marks[VICTIM]: [_process(1, RUNNERS[VICTIM], is_sealed=is_sealed)],
        marks[ATTACKER]: [_process(2, RUNNERS[ATTACKER])],
        "dpl_x/8/108/web/0/21008": [_process(3, RUNNERS[ATTACKER])],
        "dpl_x/8/108/worker/0/0": [_process(4, RUNNERS[ATTACKER])],
        "dpl_x/7/107/worker/0/0": [_process(5, RUNNERS[VICTIM])],
    }
    chosen = _choose(marked if is_first else dict(reversed(marked.items())), listening=listening)
    disputed = {mark for mark in chosen if mark.endswith(f"/{PORT}")}
    assert disputed == {marks[number] for number in chosen_numbers}
    assert len(chosen) == 3 + len(chosen_numbers)


def test_without_separate_users_no_environment_gets_a_port_that_two_claim() -> None:
    marked = {f"dpl_x/{number}/107/web/0/{PORT}": [_process(number, 1000)] for number in (7, 8)}
    assert _choose(marked, listening=1000, runners={7: 1000, 8: 1000}) == {}


def test_an_environment_that_claims_too_many_instances_gets_none() -> None:
    """Each claimed instance would take a descriptor of the deployer."""
    marked = {f"dpl_x/8/108/web/{number}/0": [_process(number, 108)] for number in range(2000)}
    marked["dpl_x/7/107/web/0/21007"] = [_process(3000, 107)]
    assert _choose(marked) == {"dpl_x/7/107/web/0/21007": 3000}


class _Machine:
    """Processes of two environments from a former deployer, each with or without namespaces."""

    def __init__(self, folder: Path, stack: AsyncExitStack, *, in_namespaces: bool) -> None:
        first_uid = random.SystemRandom().randrange(2_000_000_000, 2_100_000_000, 1000)
        self.identity = Identity(f"dpl_{secrets.token_hex(8)}", "here", first_uid, folder)
        self.listeners = ListenerOwners.of_this_machine()
        self._stack = stack
        self._in_namespaces = in_namespaces
        stack.callback(self.listeners.close)

    def start(self, number: int, mark: str, command: str) -> Callable[[], bool]:
        """Run the command with the mark; return a function that checks whether the process still runs."""
        uid = self.identity.first_uid + 2 * number + 1
        if self._in_namespaces:
            return self._start_confined(Owner(uid, uid), mark, command)
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env={"PHAROS_INSTANCE": mark},
            user=uid,
            group=uid,
            extra_groups=(),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return lambda: process.poll() is None

    def _start_confined(self, owner: Owner, mark: str, command: str) -> Callable[[], bool]:
        folder = Path(self.identity.folder, secrets.token_hex(4))
        for path in (folder, folder / "app", folder / "home"):
            path.mkdir()
            os.chown(path, owner.uid, owner.gid)
        null = os.open("/dev/null", os.O_WRONLY)
        process = start_process(
            command,
            variables={},
            confinement=Confinement(folder / "app", folder / "home", owner),
            mark=mark,
            stdout=null,
            stderr=null,
            dies_with_deployer=True,
        )
        os.close(null)
        self._stack.push_async_callback(process.end, 0)
        return lambda: process.is_running

    async def succeed(self) -> LocalDriver:
        """Return the driver of the next deployer process after its search for orphans."""
        traffic: Any = None
        driver = LocalDriver(
            self.identity,
            traffic,
            lambda *_: None,
            hidden=(),
            limits=Limits(),
            drain_seconds=0,
            listeners=self.listeners,
        )
        await driver.find_orphans()
        return driver


MakeMachine = Callable[[bool], Awaitable[_Machine]]


@pytest.fixture
async def make_machine(tmp_path: Path) -> AsyncIterator[MakeMachine]:
    async with AsyncExitStack() as stack:

        async def make(in_namespaces: bool) -> _Machine:
            if in_namespaces and not await has_namespaces():
                pytest.skip("this kernel grants no namespaces")
            machine = _Machine(tmp_path, stack, in_namespaces=in_namespaces)
            stack.push_async_callback(end_marked, f"{machine.identity.id}/")
            return machine

        yield make


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user for each environment")
@pytest.mark.parametrize("in_namespaces", [True, False])
async def test_forged_marks_take_neither_port_nor_processes_from_another_application(
    make_machine: MakeMachine, in_namespaces: bool
) -> None:
    machine = await make_machine(in_namespaces)
    id, port = machine.identity.id, free_port()
    mark = f"{id}/{VICTIM}/107/web/0/{port}"
    victim = machine.start(VICTIM, mark, f"exec {PYTHON} -m http.server --bind 127.0.0.1 {port}")
    claims = [f"{id}/", f"{id}/{VICTIM}/", f"{id}/{ATTACKER}/999/web/0/{port}"]
    attackers = [
        machine.start(
            ATTACKER,
            f"{id}/{ATTACKER}/108/web/{number}/0",
            f"exec env PHAROS_INSTANCE={claim} /bin/sleep 1{number}00",
        )
        for number, claim in enumerate(claims, 1)
    ]
    uid = machine.identity.first_uid + 2 * VICTIM + 1
    await wait_until(lambda: machine.listeners.find_user(port) == uid)
    await wait_until(lambda: _count_claims(claims) == len(claims))
    driver = await machine.succeed()
    assert victim()
    # In namespaces, forged marks have no effect, and the attacker's instances keep running.
    assert [each() for each in attackers] == [in_namespaces] * len(claims)
    assert await machine.listeners.examine(port) is Verdict.OWN
    routes = driver.first_routes(
        {VICTIM: LastLive("env_v", 107, ("v.localhost",)), ATTACKER: LastLive("env_a", 999, ("a.localhost",))}
    )
    assert {number: route.targets for number, route in routes.items()} == {
        VICTIM: (Target(port),),
        ATTACKER: (),
    }


def _count_claims(claims: Sequence[str]) -> int:
    """Count the marks that a process has in its environment, after it has executed the new program."""
    marks = Marks()
    found = [marks.read_claimed(int(name)) for name in os.listdir("/proc") if name.isdecimal()]
    return sum(frozenset({claim}) in found for claim in claims)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user for each environment")
async def test_steps_of_a_former_deployer_process_are_ended(make_machine: MakeMachine) -> None:
    machine = await make_machine(False)
    id = machine.identity.id
    started = [machine.start(ATTACKER, f"{id}/step/{number}", "exec sleep 1000") for number in range(10)]
    await wait_until(lambda: len(find_marked(f"{id}/step/")) == len(started))
    await machine.succeed()
    assert not any(each() for each in started)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user for each environment")
async def test_a_deployer_starts_although_processes_cannot_be_ended(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An application may start new processes with the mark again and again."""
    machine = await make_machine(False)
    mark = f"{machine.identity.id}/{VICTIM}/107/web/0/0"
    victim = machine.start(VICTIM, mark, "exec sleep 1000")
    await wait_until(lambda: mark in find_marked(mark))

    async def give_up(*_: object) -> int:
        raise StillRunning("2 processes could not be ended")

    monkeypatch.setattr(orphans_module, "end_exact_marks", give_up)
    driver = await machine.succeed()
    assert "2 processes could not be ended" in caplog.text
    assert victim()
    monkeypatch.undo()
    await driver.close(stops=True)
    assert not victim()
