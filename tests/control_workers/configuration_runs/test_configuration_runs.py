"""Operations are carried out in their order, each once, however many workers there are."""

import asyncio
import contextlib
import logging
import random
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.tables.configuration import Application
from control_workers import configuration_runs as worker_module
from control_workers.configuration_runs import ConfigurationRunWorker, Step
from tests.support.eleven_operations import BINDINGS, COUNT, DOCUMENT, EFFECTS, check_done, effects
from tests.support.reviewed_project import ReviewedProject, statuses


@pytest.mark.both_databases
async def test_operations_are_carried_out_in_their_order_each_once(begun: ReviewedProject) -> None:
    steps: list[tuple[Step, int]] = []

    async def note(step: Step, position: int) -> None:
        steps.append((step, position))

    application = await begun.begin(DOCUMENT, BINDINGS)
    assert len(application["operations"]) == COUNT
    told = await begun.work(application["id"], on_step=note)
    await check_done(begun, told)
    assert await effects(begun) == EFFECTS
    assert [one["attempts"] for one in told["operations"]] == [1] * COUNT
    assert [position for step, position in steps if step == "begun"] == list(range(COUNT))
    # The site that is new, and the one that is gone: the environment had no keys.
    assert [position for step, position in steps if step == "told"] == [8, 9]
    times = [(one["started_at"], one["finished_at"]) for one in told["operations"]]
    assert times == sorted(times)
    assert told["finished_at"] >= times[-1][1]
    (row,) = await begun.rows(Application, Application.id == told["id"])
    assert (row.holder, row.leased_until) == (None, None)


async def test_what_was_applied_is_begun_at_once(
    begun: ReviewedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_LOOK_SECONDS", 3600.0)
    async with begun.working():
        # It has looked, and waits.
        await asyncio.sleep(0.3)
        application = await begun.begin(DOCUMENT, BINDINGS)
        await check_done(begun, await begun.finished(application["id"]))


async def test_what_it_was_not_told_of_is_found(begun: ReviewedProject) -> None:
    """Another control plane took the call."""
    async with begun.working():
        begun.platform.app.state.wake_configuration_runs = lambda: None
        application = await begun.begin(DOCUMENT, BINDINGS)
        await check_done(begun, await begun.finished(application["id"]))


async def test_projects_do_not_wait_for_each_others_failures(begun: ReviewedProject) -> None:
    shop = ReviewedProject(begun.platform, "shop", begun.directory)
    first = await shop.begin("environments: {staging: {replicas: 3, name: Test}, production: {name: Live}}\n")
    await begun.platform.change("shop/staging", desired_replicas=7)
    second = await begun.begin(DOCUMENT, BINDINGS)
    async with begun.working():
        assert statuses(await shop.finished(first["id"])) == ["failed", "pending"]
        assert (await begun.finished(second["id"]))["status"] == "succeeded"


# Times that an operation is begun. The slower the machine is, the longer workers whose leases are over at once may take
# everything from each other: behind this one of them is left, which ends it.
_ENOUGH = 200


@pytest.mark.parametrize(
    "milliseconds",
    [
        0,
        pytest.param(1, marks=pytest.mark.both_databases),
        pytest.param(10, marks=pytest.mark.full),
        15_000,
    ],
)
async def test_many_workers_carry_it_out_once(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, milliseconds: int
) -> None:
    """Though leases run out in the middle: whoever was too slow finds that it is somebody else's."""
    chance = random.Random(milliseconds)
    workers: list[ConfigurationRunWorker] = []
    begun_times = 0

    async def dawdle(step: Step, position: int) -> None:
        nonlocal begun_times
        begun_times += step == "begun"
        if begun_times == _ENOUGH:
            for worker in workers[1:]:
                worker.stop()
        await asyncio.sleep(chance.uniform(0, 0.015))

    caplog.set_level(logging.WARNING, "control_domain.configurations")
    application = await begun.begin(DOCUMENT, BINDINGS)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            lease = timedelta(milliseconds=milliseconds)
            workers.append(await stack.enter_async_context(begun.working(lease=lease, on_step=dawdle)))
        told = await begun.finished(application["id"])
    await check_done(begun, told)
    assert await effects(begun) == EFFECTS


# The two workers meet at row locks, which SQLite does not have.
@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("step", "position"),
    [
        ("begun", 5),
        ("carried out", 5),
        ("carried out", 8),
        ("told", 8),
        # The same steps of other operations.
        pytest.param("begun", 0, marks=pytest.mark.full),
        pytest.param("begun", 8, marks=pytest.mark.full),
        pytest.param("told", 9, marks=pytest.mark.full),
    ],
)
async def test_a_worker_that_was_thought_dead_does_nothing_more(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, step: Step, position: int
) -> None:
    caplog.set_level(logging.WARNING, "control_domain.configurations")
    at_it, go_on = asyncio.Event(), asyncio.Event()

    async def hang(this: Step, place: int) -> None:
        if (this, place) == (step, position):
            at_it.set()
            await go_on.wait()

    application = await begun.begin(DOCUMENT, BINDINGS)
    async with begun.working(lease=timedelta(seconds=1), on_step=hang):
        await at_it.wait()
        async with begun.working():
            told = await begun.finished(application["id"])
            before = await begun.platform.contents()
            go_on.set()
            await asyncio.sleep(0.3)
            assert await begun.platform.contents() == before
    await check_done(begun, told)
    assert await effects(begun) == EFFECTS
    # It was begun twice, unless nothing was left but to say so.
    is_done = step == "carried out" and position == 5
    attempts = [one["attempts"] for one in told["operations"]]
    assert attempts[position] == (1 if is_done else 2)
    assert sum(attempts) == COUNT + (0 if is_done else 1)
    # A server or a task that another test has left behind may say something at any time.
    assert [
        record for record in caplog.records if record.name.startswith(("control_domain.", "control_workers."))
    ] == []


@pytest.mark.both_databases
async def test_stop_ends_behind_the_operation(begun: ReviewedProject) -> None:
    stopped: list[ConfigurationRunWorker] = []

    async def stop(step: Step, position: int) -> None:
        if (step, position) == ("begun", 2):
            stopped[0].stop()

    application = await begun.begin(DOCUMENT, BINDINGS)
    worker = ConfigurationRunWorker(begun.platform.sessions, begun.directory, begun.keys, on_step=stop)
    stopped.append(worker)
    await worker.run()
    told = await begun.read(application["id"])
    assert statuses(told) == ["succeeded"] * 3 + ["pending"] * (COUNT - 3)
    assert told["status"] == "running"
    (row,) = await begun.rows(Application, Application.id == told["id"])
    assert (row.holder, row.leased_until) == (None, None)
    # Another one goes on, and waits for no lease.
    await check_done(begun, await begun.work(application["id"]))


async def test_one_that_is_stopped_begins_nothing(begun: ReviewedProject) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    worker = ConfigurationRunWorker(begun.platform.sessions, begun.directory, begun.keys)
    worker.stop()
    await worker.run()
    assert await begun.read(application["id"]) == application


@pytest.mark.both_databases
async def test_whoever_is_alone_takes_what_a_dead_one_held(begun: ReviewedProject) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    later = datetime.now(UTC) + timedelta(days=1)
    await begun.change(Application, application["id"], holder="a dead one", leased_until=later)
    worker = ConfigurationRunWorker(begun.platform.sessions, begun.directory, begun.keys)
    async with worker_module.running_configuration_worker(worker, is_alone=True):
        await check_done(begun, await begun.finished(application["id"]))
