"""Workers apply the steps of runs in order, each once, regardless of the number of workers."""

import asyncio
import contextlib
import logging
import random
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.tables.configuration import ConfigurationRun
from control_workers import configuration_runs as worker_module
from control_workers.configuration_runs import Checkpoint, ConfigurationRunWorker
from tests.support.eleven_steps import BINDINGS, COUNT, DOCUMENT, EFFECTS, check_done, effects
from tests.support.reviewed_project import ReviewedProject, statuses


@pytest.mark.both_databases
async def test_steps_are_applied_in_order_each_once(begun: ReviewedProject) -> None:
    checkpoints: list[tuple[Checkpoint, int]] = []

    async def note(checkpoint: Checkpoint, position: int) -> None:
        checkpoints.append((checkpoint, position))

    run = await begun.begin(DOCUMENT, BINDINGS)
    assert len(run["operations"]) == COUNT
    result = await begun.work(run["id"], on_checkpoint=note)
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS
    assert [one["attempts"] for one in result["operations"]] == [1] * COUNT
    assert [position for checkpoint, position in checkpoints if checkpoint == "started"] == list(range(COUNT))
    # The new and the removed site; the removed environment had no keys.
    assert [position for checkpoint, position in checkpoints if checkpoint == "published"] == [4, 8, 9, 10]
    times = [(one["started_at"], one["finished_at"]) for one in result["operations"]]
    assert times == sorted(times)
    assert result["finished_at"] >= times[-1][1]
    (row,) = await begun.rows(ConfigurationRun, ConfigurationRun.id == result["id"])
    assert (row.holder, row.leased_until) == (None, None)


async def test_a_new_run_starts_at_once(begun: ReviewedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_POLL_SECONDS", 3600.0)
    async with begun.working():
        # Let the worker poll once.
        await asyncio.sleep(0.3)
        run = await begun.begin(DOCUMENT, BINDINGS)
        await check_done(begun, await begun.finished(run["id"]))


async def test_a_run_is_found_without_being_woken(begun: ReviewedProject) -> None:
    """Another control plane received the request."""
    async with begun.working():
        begun.platform.app.state.wake_configuration_runs = lambda: None
        run = await begun.begin(DOCUMENT, BINDINGS)
        await check_done(begun, await begun.finished(run["id"]))


async def test_a_failure_does_not_block_other_projects(begun: ReviewedProject) -> None:
    shop = ReviewedProject(begun.platform, "shop", begun.directory)
    first = await shop.begin("environments: {staging: {replicas: 3, name: Test}, production: {name: Live}}\n")
    await begun.platform.change("shop/staging", desired_replicas=7)
    second = await begun.begin(DOCUMENT, BINDINGS)
    async with begun.working():
        assert statuses(await shop.finished(first["id"])) == ["failed", "pending"]
        assert (await begun.finished(second["id"]))["status"] == "succeeded"


# Maximum starts of steps. On a slow machine, workers with very short leases may take runs from each other for a long
# time. After this many starts only one worker is left, which finishes.
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
async def test_many_workers_apply_each_step_once(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, milliseconds: int
) -> None:
    """This holds even if leases expire in the middle of a step: the slower worker writes nothing."""
    chance = random.Random(milliseconds)
    workers: list[ConfigurationRunWorker] = []
    begun_times = 0

    async def dawdle(checkpoint: Checkpoint, position: int) -> None:
        nonlocal begun_times
        begun_times += checkpoint == "started"
        if begun_times == _ENOUGH:
            for worker in workers[1:]:
                worker.stop()
        await asyncio.sleep(chance.uniform(0, 0.015))

    caplog.set_level(logging.WARNING, "control_workers")
    run = await begun.begin(DOCUMENT, BINDINGS)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            lease = timedelta(milliseconds=milliseconds)
            workers.append(await stack.enter_async_context(begun.working(lease=lease, on_checkpoint=dawdle)))
        result = await begun.finished(run["id"])
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS


# On Postgres the two workers wait for row locks, which SQLite does not have.
@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("checkpoint", "position"),
    [
        ("started", 5),
        ("applied", 5),
        ("applied", 8),
        ("published", 8),
        # The same checkpoints of other steps.
        pytest.param("started", 0, marks=pytest.mark.full),
        pytest.param("started", 8, marks=pytest.mark.full),
        pytest.param("published", 9, marks=pytest.mark.full),
    ],
)
async def test_a_worker_that_lost_its_lease_writes_nothing(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, checkpoint: Checkpoint, position: int
) -> None:
    caplog.set_level(logging.WARNING, "control_workers")
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hang(this: Checkpoint, place: int) -> None:
        if (this, place) == (checkpoint, position):
            reached.set()
            await go_on.wait()

    run = await begun.begin(DOCUMENT, BINDINGS)
    async with begun.working(lease=timedelta(seconds=1), on_checkpoint=hang):
        await reached.wait()
        async with begun.working():
            result = await begun.finished(run["id"])
            before = await begun.platform.contents()
            go_on.set()
            await asyncio.sleep(0.3)
            assert await begun.platform.contents() == before
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS
    # Started twice, unless the step was finished at the checkpoint.
    is_done = checkpoint == "applied" and position == 5
    attempts = [one["attempts"] for one in result["operations"]]
    assert attempts[position] == (1 if is_done else 2)
    assert sum(attempts) == COUNT + (0 if is_done else 1)
    # Servers and tasks of earlier tests may still log something.
    assert [
        record for record in caplog.records if record.name.startswith(("control_domain.", "control_workers."))
    ] == []


@pytest.mark.both_databases
async def test_stop_waits_for_the_step_in_progress(begun: ReviewedProject) -> None:
    stopped: list[ConfigurationRunWorker] = []

    async def stop(checkpoint: Checkpoint, position: int) -> None:
        if (checkpoint, position) == ("started", 2):
            stopped[0].stop()

    run = await begun.begin(DOCUMENT, BINDINGS)
    worker = ConfigurationRunWorker(begun.platform.sessions, begun.directory, begun.keys, on_checkpoint=stop)
    stopped.append(worker)
    await worker.run()
    result = await begun.read(run["id"])
    assert statuses(result) == ["succeeded"] * 3 + ["pending"] * (COUNT - 3)
    assert result["status"] == "running"
    (row,) = await begun.rows(ConfigurationRun, ConfigurationRun.id == result["id"])
    assert (row.holder, row.leased_until) == (None, None)
    # Another worker continues without waiting for the lease to expire.
    await check_done(begun, await begun.work(run["id"]))


async def test_a_stopped_worker_starts_nothing(begun: ReviewedProject) -> None:
    run = await begun.begin(DOCUMENT, BINDINGS)
    worker = ConfigurationRunWorker(begun.platform.sessions, begun.directory, begun.keys)
    worker.stop()
    await worker.run()
    assert await begun.read(run["id"]) == run


@pytest.mark.both_databases
async def test_a_lone_worker_takes_over_leases_of_an_ended_one(begun: ReviewedProject) -> None:
    run = await begun.begin(DOCUMENT, BINDINGS)
    later = datetime.now(UTC) + timedelta(days=1)
    await begun.change(ConfigurationRun, run["id"], holder="a dead one", leased_until=later)
    worker = ConfigurationRunWorker(begun.platform.sessions, begun.directory, begun.keys)
    async with worker_module.running_configuration_worker(worker, is_alone=True):
        await check_done(begun, await begun.finished(run["id"]))
