"""Programs that hide from whoever ends them: nothing of them is left after a step, a stop or a restart."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from deployer.processes.marks import end_all, end_instance, find_marked
from deployer.processes.process_table import read_processes, read_uid
from deployer.processes.run_step import StepTimedOut
from deployer.processes.start_process import has_namespaces
from deployer.processes.supervised import Supervised
from tests.deployer.processes.places import PYTHON, Place, until
from tests.support.hiding import HIDE

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, whose commands have a user of their own"
)


def _of_owner(place: Place) -> list[int]:
    owner = place.confinement.owner
    assert owner is not None
    return [each.pid for each in read_processes() if read_uid(each.pid) == owner.uid]


def _is_hidden(place: Place) -> bool:
    return (place.confinement.home / "hidden").exists()


@pytest.fixture(autouse=True)
async def nothing_left(place: Place) -> AsyncIterator[None]:
    """The owner's processes are ended by their user as well, so that a failure leaves none."""
    if not await has_namespaces():
        pytest.skip("this kernel grants no namespaces: what hides from its marks is not found")
    yield
    left = _of_owner(place)
    await end_all(place.mark, place.confinement.owner)
    assert left == []


async def test_after_a_step(place: Place) -> None:
    await place.run(f"{HIDE}\nuntil [ -e ~/hidden ]; do sleep 0.02; done")
    assert _of_owner(place) == []


async def test_after_a_step_that_takes_too_long(place: Place) -> None:
    with pytest.raises(StepTimedOut):
        await place.run(f"{HIDE}\nuntil [ -e ~/hidden ]; do sleep 0.02; done; sleep 600", timeout_seconds=3)
    assert _is_hidden(place)
    assert _of_owner(place) == []


async def test_after_an_instance_was_stopped(place: Place, tmp_path: Path) -> None:
    """By its mark alone: other instances may run as the same user."""
    instance = _supervise(place, f"{HIDE}\nexec sleep 600", tmp_path, lambda _: None)
    instance.start()
    await until(lambda: _is_hidden(place))
    await instance.stop(1)
    assert _of_owner(place) == []


async def test_after_an_instance_crashed(place: Place, tmp_path: Path) -> None:
    """Nothing of it meets the next one, whose port it would hold."""
    left: list[list[int]] = []

    def look(it: Supervised) -> None:
        if it.state == "waiting":
            left.append(_of_owner(place))

    command = f"{HIDE}\nuntil [ -e ~/hidden ]; do sleep 0.02; done; exit 3"
    instance = _supervise(place, command, tmp_path, look)
    instance.start()
    await until(lambda: left)
    await instance.stop(0)
    assert left[0] == []


async def test_after_its_deployer_was_killed_in_the_middle(place: Place, nowhere: int) -> None:
    """As a successor ends what it does not take over; and no other instance of the same user with it."""
    other = Place(place.path, place.confinement, place.mark + "2")
    process = place.start(f"{HIDE}\nexec sleep 600", nowhere, dies_with_us=False)
    neighbour = other.start("exec sleep 600", nowhere, dies_with_us=False)
    await neighbour.wait_started()
    await until(lambda: _is_hidden(place))
    process.forget()
    children = psutil.Process().children()
    assert await _end_alone(place.mark) > 0
    for each in children:
        if each.pid != neighbour.pid and not each.is_running():
            each.wait()
    assert neighbour.is_running
    assert set(find_marked(place.mark)) == {other.mark}
    await neighbour.end(0)


async def _end_alone(mark: str) -> int:
    ending = asyncio.ensure_future(end_instance(mark, None, None))
    while not ending.done():
        # Nobody else reaps what was let go.
        for each in psutil.Process().children():
            if each.status() == psutil.STATUS_ZOMBIE:
                each.wait(0)
        await asyncio.sleep(0.02)
    return ending.result()


async def test_a_launcher_that_is_killed_leaves_no_child(place: Place, nowhere: int) -> None:
    """In whatever it does just then."""
    before = {each.pid for each in psutil.Process().children()}
    for pause in (0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05):
        process = place.start("exec sleep 600", nowhere)
        await asyncio.sleep(pause)
        os.kill(process.pid, 9)
        await process.wait()
        await process.end(0)
        assert _of_owner(place) == []
    assert {each.pid for each in psutil.Process().children()} <= before


async def test_what_kills_all_that_it_reaches_ends_itself_alone(place: Place, nowhere: int) -> None:
    """Another command of the same user is out of its reach, which in a step of an ordinary user is Pharos."""
    other = Place(place.path, place.confinement, place.mark + "2")
    neighbour = other.start("exec sleep 600", nowhere)
    await neighbour.wait_started()
    everything = f"{PYTHON} -c 'import os; os.kill(-1, 9)'"
    process = place.start(f"kill -9 1 {neighbour.pid} {os.getpid()}; {everything}; sleep 600", nowhere)
    assert await process.wait() == -signal.SIGKILL
    await process.end(0)
    assert neighbour.is_running
    await neighbour.end(0)


def _supervise(place: Place, command: str, path: Path, on_change: Callable[[Supervised], None]) -> Supervised:
    return Supervised(
        command=command,
        variables={},
        confinement=place.confinement,
        mark=place.mark,
        output=path / "output",
        on_change=on_change,
    )
