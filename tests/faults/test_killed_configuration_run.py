"""Workers are killed with SIGKILL during a run of fifty steps. The run ends as without kills, with each step applied
once.

`make test` kills at each checkpoint once per kind of resource, `make test-full` at every checkpoint of each step.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from operator import itemgetter
from pathlib import Path

import pytest

from control_domain.configurations.runs import list_steps
from control_domain.database.engine import Sessions
from control_workers.configuration_runs import Checkpoint
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.redis import RedisKeyDirectory, open_redis_key_directory
from tests.support.databases import copied_database
from tests.support.engines import or_skip
from tests.support.fifty_steps import (
    COUNT,
    Fifty,
    Outcome,
    execute_all_runs,
    live_entries,
    opened,
    plan_again,
    read_outcome,
)
from tests.support.killed_configuration_worker import RestartedWorker, restarted_worker
from tests.support.listed_keys import entries_reader
from tests.support.redis_server import RedisServer, running_redis

_CHECKPOINTS = ("started", "applied", "published")
# Time that a control plane waits before it takes over from another one that may have ended.
_LEASE_SECONDS = 0.1
_MOST_LIVES = 1000
_FEWEST_KILLS = 3
pytestmark = pytest.mark.timeout(900)
_on_sqlite = pytest.mark.parametrize("fifty", ["sqlite"], indirect=True)
_on_postgres = pytest.mark.parametrize("fifty", ["postgres"], indirect=True)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with or_skip(running_redis(tmp_path_factory.mktemp("killed-redis"))) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Prepared:
    """The database to copy, and the results of an undisturbed run."""

    fifty: Fifty
    undisturbed: Outcome

    publishing: Sequence[int]
    """Positions of the steps that publish something."""


@pytest.fixture(scope="module")
async def prepared(fifty: Fifty, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    publishing = []

    async def note(checkpoint: Checkpoint, position: int) -> None:
        if checkpoint == "published":
            publishing.append(position)

    folder = tmp_path_factory.mktemp("undisturbed")
    async with copied_database(fifty.url, folder) as url, opened(url) as sessions:
        await execute_all_runs(sessions, InProcessKeyDirectory(), on_checkpoint=note)
        return Prepared(fifty, await read_outcome(sessions, fifty), publishing)


@dataclass(frozen=True, slots=True)
class DeployScenario:
    """The run in a new database and a new key directory, and its workers."""

    prepared: Prepared
    sessions: Sessions
    directory: RedisKeyDirectory
    workers: Sequence[RestartedWorker]

    async def attempts(self) -> list[int]:
        """Return the attempts of each step."""
        async with self.sessions() as session:
            steps = await list_steps(session, self.prepared.fifty.run_id)
            return [step.attempts for step in steps]

    async def check_complete(self) -> None:
        """Check that the results and the key directory are as after an undisturbed run."""
        fifty = self.prepared.fifty
        outcome = await read_outcome(self.sessions, fifty)
        assert outcome == self.prepared.undisturbed
        assert {(status, error) for _, _, status, error in outcome.steps} == {("succeeded", None)}
        assert await plan_again(self.sessions, fifty) == []
        entries = {entry.digest: entry for entry in await live_entries(self.sessions)}
        known = {digest: await self.directory.find(digest) for digest in fifty.digests | entries.keys()}
        assert known == {digest: entries.get(digest) for digest in known}
        assert None in known.values() and entries.keys() - fifty.digests


@asynccontextmanager
async def _stage(
    prepared: Prepared, redis: RedisServer, folder: Path, *, workers: int = 1
) -> AsyncIterator[DeployScenario]:
    redis.restart()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(copied_database(prepared.fifty.url, folder))
        sessions = await stack.enter_async_context(opened(url))
        directory = await open_redis_key_directory(redis.url, follow=False)
        stack.push_async_callback(directory.close)
        entries = await live_entries(sessions)
        await directory.publish_all(entries_reader(entries))
        # Each key was also published alone when it was created.
        for entry in entries:
            await directory.publish(entry)
        alone = ["--alone"] if url.startswith("sqlite") else []
        living_there = [
            await stack.enter_async_context(
                restarted_worker(folder, url, redis.url, *alone, lease_seconds=_LEASE_SECONDS)
            )
            for _ in range(workers)
        ]
        yield DeployScenario(prepared, sessions, directory, living_there)


async def _kill_at(scenario: DeployScenario, checkpoints: Sequence[tuple[str, int]]) -> None:
    """Start one life per checkpoint, and a last one that finishes."""
    (worker,) = scenario.workers
    for checkpoint, position in checkpoints:
        await worker.start(f"{checkpoint} {position}")
        assert await worker.wait_ended(), f"never at {checkpoint} {position}: {worker.log_tail()}"
    await worker.start()
    assert not await worker.wait_ended()


@_on_sqlite
def test_fifty_steps_of_all_kinds_are_applied(prepared: Prepared) -> None:
    steps = prepared.undisturbed.steps
    assert len(steps) == COUNT
    kinds = [(action, _kind(resource)) for action, resource, _, _ in steps]
    others = {"environments", "heartbeats", "queues", "sites"}
    changed = others - {"queues"} | {"project"}
    assert set(kinds) == {("update", kind) for kind in changed} | {
        (action, kind) for action in ("create", "delete") for kind in others
    }
    assert {status for _, _, status, _ in steps} == {"succeeded"}
    # Each step is audited; steps with variables or a lock more than once.
    assert len(prepared.undisturbed.audited) >= COUNT


def _kind(resource: str) -> str:
    return "project" if resource == "project" else resource.split(".")[-2]


# Edges are notified of changed sites and of every deletion.
_KILLED_KINDS = (
    ("started", "create", "environments"),
    ("applied", "update", "heartbeats"),
    ("applied", "update", "sites"),
    ("published", "create", "sites"),
    ("applied", "delete", "queues"),
    ("published", "delete", "heartbeats"),
    ("started", "delete", "environments"),
)


@_on_sqlite
async def test_a_kill_at_a_checkpoint_of_each_kind_of_resource(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    steps = prepared.undisturbed.steps
    first = {(one[0], _kind(one[1])): position for position, one in reversed([*enumerate(steps)])}
    kills = sorted(
        ((checkpoint, first[action, kind]) for checkpoint, action, kind in _KILLED_KINDS), key=itemgetter(1)
    )
    async with _stage(prepared, redis_server, tmp_path) as scenario:
        await _kill_at(scenario, kills)
        await scenario.check_complete()
        # A step that publishes nothing is finished at `applied`.
        again = {at for checkpoint, at in kills if checkpoint == "started" or at in prepared.publishing}
        assert await scenario.attempts() == [1 + (position in again) for position in range(COUNT)]


@pytest.mark.full
@_on_sqlite
async def test_a_kill_at_every_checkpoint_of_each_step(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    publishing = prepared.publishing
    kills = [
        (checkpoint, position)
        for position in range(COUNT)
        for checkpoint in _CHECKPOINTS
        # The other steps publish nothing.
        if checkpoint != "published" or position in publishing
    ]
    async with _stage(prepared, redis_server, tmp_path) as scenario:
        await _kill_at(scenario, kills)
        await scenario.check_complete()
        assert await scenario.attempts() == [4 if position in publishing else 2 for position in range(COUNT)]


@pytest.mark.full
@_on_sqlite
async def test_a_kill_right_after_publishing(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    publishing = prepared.publishing
    async with _stage(prepared, redis_server, tmp_path) as scenario:
        await _kill_at(scenario, [("published", position) for position in publishing])
        await scenario.check_complete()
        assert await scenario.attempts() == [1 + (position in publishing) for position in range(COUNT)]


@_on_postgres
async def test_a_kill_at_each_checkpoint_on_postgres(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    apart = len(prepared.publishing) // len(_CHECKPOINTS)
    kills = [
        (checkpoint, prepared.publishing[number * apart]) for number, checkpoint in enumerate(_CHECKPOINTS)
    ]
    killed = {position for _, position in kills}
    async with _stage(prepared, redis_server, tmp_path) as scenario:
        await _kill_at(scenario, kills)
        await scenario.check_complete()
        assert await scenario.attempts() == [1 + (position in killed) for position in range(COUNT)]


@pytest.mark.full
@_on_postgres
async def test_kills_on_postgres(prepared: Prepared, redis_server: RedisServer, tmp_path: Path) -> None:
    publishing = prepared.publishing
    others = [position for position in range(COUNT) if position not in publishing]
    chosen = [*zip(cycle(_CHECKPOINTS), publishing[::3]), *zip(cycle(_CHECKPOINTS[:2]), others[::5])]
    assert {checkpoint for checkpoint, _ in chosen} == set(_CHECKPOINTS)
    async with _stage(prepared, redis_server, tmp_path) as scenario:
        await _kill_at(scenario, sorted(chosen, key=itemgetter(1)))
        await scenario.check_complete()


# Two workers at once, below, are killed at random moments in every run.
@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
@_on_sqlite
async def test_kills_at_random_moments(
    seed: int, prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    async with _stage(prepared, redis_server, tmp_path) as scenario:
        kills = await _kill_at_random(scenario.workers[0], random.Random(seed), 0.2)
        assert kills >= _FEWEST_KILLS, "the run ended before the kills"
        await scenario.check_complete()


@_on_postgres
async def test_two_workers_that_are_killed_at_random_moments(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    async with _stage(prepared, redis_server, tmp_path, workers=2) as scenario:
        moments = random.Random(1)
        kills = await asyncio.gather(*(_kill_at_random(worker, moments, 1.0) for worker in scenario.workers))
        assert sum(kills) >= _FEWEST_KILLS, "the run ended before the kills"
        await scenario.check_complete()


async def _kill_at_random(worker: RestartedWorker, moments: random.Random, longest: float) -> int:
    """Kill lives, the first one after `longest` seconds at most, until one finishes; return the number of kills."""
    for count in range(_MOST_LIVES):
        # Limit the progress of the first lives, even if the kill is late.
        await worker.start(
            f"wait {COUNT * (count + 1) // (_FEWEST_KILLS + 1)}" if count < _FEWEST_KILLS else ""
        )
        ending = asyncio.create_task(worker.wait_ended())
        # Ever longer, so that the run ends soon on any machine: each life costs CPU before it does anything.
        await asyncio.wait([ending], timeout=moments.uniform(0.05, longest * 1.2**count))
        worker.kill()
        if not await ending:
            return count
    raise AssertionError(f"never finished: {worker.log_tail()}")
