"""A configuration run of fifty operations is killed with -9 at each of them, and ends as if it had not been: each
change is applied once.

`make test` kills at each step, once per kind of resource. `make test-full` kills at every step of each operation.
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
from tests.support.fifty_operations import (
    COUNT,
    Fifty,
    Outcome,
    carry_out_all,
    live_entries,
    opened,
    plan_again,
    read_outcome,
)
from tests.support.killed_application import Lives, living
from tests.support.listed_keys import listing
from tests.support.redis_server import RedisServer, running_redis

_STEPS = ("started", "applied", "published")
# What another control plane waits for, where it cannot know that the one before is gone.
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
    """A database to copy, and the result of the run without kills."""

    fifty: Fifty
    undisturbed: Outcome

    telling: Sequence[int]
    """Positions of the operations that notify the edges."""


@pytest.fixture(scope="module")
async def prepared(fifty: Fifty, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    telling = []

    async def note(step: Checkpoint, position: int) -> None:
        if step == "published":
            telling.append(position)

    folder = tmp_path_factory.mktemp("undisturbed")
    async with copied_database(fifty.url, folder) as url, opened(url) as sessions:
        await carry_out_all(sessions, InProcessKeyDirectory(), on_checkpoint=note)
        return Prepared(fifty, await read_outcome(sessions, fifty), telling)


@dataclass(frozen=True, slots=True)
class Stage:
    """A configuration run in a database and a key directory of its own, and its workers."""

    prepared: Prepared
    sessions: Sessions
    directory: RedisKeyDirectory
    workers: Sequence[Lives]

    async def attempts(self) -> list[int]:
        """Return how often each operation was begun."""
        async with self.sessions() as session:
            operations = await list_steps(session, self.prepared.fifty.run_id)
            return [operation.attempts for operation in operations]

    async def check_complete(self) -> None:
        """Check that the result is that of a run without kills, and that the edges have it."""
        fifty = self.prepared.fifty
        outcome = await read_outcome(self.sessions, fifty)
        assert outcome == self.prepared.undisturbed
        assert {(status, error) for _, _, status, error in outcome.operations} == {("succeeded", None)}
        assert await plan_again(self.sessions, fifty) == []
        entries = {entry.digest: entry for entry in await live_entries(self.sessions)}
        known = {digest: await self.directory.find(digest) for digest in fifty.digests | entries.keys()}
        assert known == {digest: entries.get(digest) for digest in known}
        assert None in known.values() and entries.keys() - fifty.digests


@asynccontextmanager
async def _stage(
    prepared: Prepared, redis: RedisServer, folder: Path, *, workers: int = 1
) -> AsyncIterator[Stage]:
    redis.restart()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(copied_database(prepared.fifty.url, folder))
        sessions = await stack.enter_async_context(opened(url))
        directory = await open_redis_key_directory(redis.url, follow=False)
        stack.push_async_callback(directory.close)
        entries = await live_entries(sessions)
        await directory.publish_all(listing(entries))
        # Each key was also published on its own at its creation.
        for entry in entries:
            await directory.publish(entry)
        alone = ["--alone"] if url.startswith("sqlite") else []
        living_there = [
            await stack.enter_async_context(
                living(folder, url, redis.url, *alone, lease_seconds=_LEASE_SECONDS)
            )
            for _ in range(workers)
        ]
        yield Stage(prepared, sessions, directory, living_there)


async def _kill_at(stage: Stage, steps: Sequence[tuple[str, int]]) -> None:
    """Run one child process for each of the steps, and a last one that is not killed."""
    (lives,) = stage.workers
    for step, position in steps:
        await lives.begin(f"{step} {position}")
        assert await lives.end(), f"never at {step} {position}: {lives.told()}"
    await lives.begin()
    assert not await lives.end()


@_on_sqlite
def test_fifty_operations_of_all_kinds_are_applied(prepared: Prepared) -> None:
    operations = prepared.undisturbed.operations
    assert len(operations) == COUNT
    kinds = [(action, _kind(resource)) for action, resource, _, _ in operations]
    others = {"environments", "heartbeats", "queues", "sites"}
    changed = others - {"queues"} | {"project"}
    assert set(kinds) == {("update", kind) for kind in changed} | {
        (action, kind) for action in ("create", "delete") for kind in others
    }
    assert {status for _, _, status, _ in operations} == {"succeeded"}
    # Each operation has written its audit entries: more than one for environments with variables or a lock.
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
async def test_a_kill_at_a_step_of_each_kind_of_resource(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    operations = prepared.undisturbed.operations
    first = {(one[0], _kind(one[1])): position for position, one in reversed([*enumerate(operations)])}
    kills = sorted(((step, first[action, kind]) for step, action, kind in _KILLED_KINDS), key=itemgetter(1))
    async with _stage(prepared, redis_server, tmp_path) as stage:
        await _kill_at(stage, kills)
        await stage.check_complete()
        # An operation without a notification is done at `carried out`.
        again = {position for step, position in kills if step == "started" or position in prepared.telling}
        assert await stage.attempts() == [1 + (position in again) for position in range(COUNT)]


@pytest.mark.full
@_on_sqlite
async def test_a_kill_at_every_step_of_each_operation(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    telling = prepared.telling
    kills = [
        (step, position)
        for position in range(COUNT)
        for step in _STEPS
        # The others are done when they are carried out.
        if step != "published" or position in telling
    ]
    async with _stage(prepared, redis_server, tmp_path) as stage:
        await _kill_at(stage, kills)
        await stage.check_complete()
        assert await stage.attempts() == [4 if position in telling else 2 for position in range(COUNT)]


@pytest.mark.full
@_on_sqlite
async def test_a_kill_after_publishing_to_the_edges(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    telling = prepared.telling
    async with _stage(prepared, redis_server, tmp_path) as stage:
        await _kill_at(stage, [("published", position) for position in telling])
        await stage.check_complete()
        assert await stage.attempts() == [1 + (position in telling) for position in range(COUNT)]


@_on_postgres
async def test_a_kill_at_each_step_on_postgres(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    apart = len(prepared.telling) // len(_STEPS)
    kills = [(step, prepared.telling[number * apart]) for number, step in enumerate(_STEPS)]
    killed = {position for _, position in kills}
    async with _stage(prepared, redis_server, tmp_path) as stage:
        await _kill_at(stage, kills)
        await stage.check_complete()
        assert await stage.attempts() == [1 + (position in killed) for position in range(COUNT)]


@pytest.mark.full
@_on_postgres
async def test_kills_on_postgres(prepared: Prepared, redis_server: RedisServer, tmp_path: Path) -> None:
    telling = prepared.telling
    others = [position for position in range(COUNT) if position not in telling]
    chosen = [*zip(cycle(_STEPS), telling[::3]), *zip(cycle(_STEPS[:2]), others[::5])]
    assert {step for step, _ in chosen} == set(_STEPS)
    async with _stage(prepared, redis_server, tmp_path) as stage:
        await _kill_at(stage, sorted(chosen, key=itemgetter(1)))
        await stage.check_complete()


# The next test kills two concurrent workers at random moments in every run.
@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
@_on_sqlite
async def test_kills_at_random_moments(
    seed: int, prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    async with _stage(prepared, redis_server, tmp_path) as stage:
        kills = await _kill_at_random(stage.workers[0], random.Random(seed), 0.2)
        assert kills >= _FEWEST_KILLS, "it was finished before the kills came"
        await stage.check_complete()


@_on_postgres
async def test_two_workers_that_are_killed_at_random_moments(
    prepared: Prepared, redis_server: RedisServer, tmp_path: Path
) -> None:
    async with _stage(prepared, redis_server, tmp_path, workers=2) as stage:
        moments = random.Random(1)
        kills = await asyncio.gather(*(_kill_at_random(lives, moments, 1.0) for lives in stage.workers))
        assert sum(kills) >= _FEWEST_KILLS, "it was finished before the kills came"
        await stage.check_complete()


async def _kill_at_random(lives: Lives, moments: random.Random, longest: float) -> int:
    """Kill workers after at most `longest` seconds until the run is done; return the number of kills."""
    for count in range(_MOST_LIVES):
        # The first workers get no further than this, however late the kill comes.
        await lives.begin(
            f"wait {COUNT * (count + 1) // (_FEWEST_KILLS + 1)}" if count < _FEWEST_KILLS else ""
        )
        ending = asyncio.create_task(lives.end())
        # Longer each time, so that the run ends on any machine.
        await asyncio.wait([ending], timeout=moments.uniform(0.05, longest + count / 20))
        lives.kill()
        if not await ending:
            return count
    raise AssertionError(f"never finished: {lives.told()}")
