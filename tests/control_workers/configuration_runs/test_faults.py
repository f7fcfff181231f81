"""A worker continues after outages and faults, and applies no step twice."""

import asyncio
import logging
import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.audit import Actor
from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.plan import Action, Change
from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.errors import DatabaseUnavailable
from control_domain.projects.operations import create_project
from control_domain.published_keys import publish_keys
from control_domain.removals.remove_project import remove_project
from control_domain.sealing import SealingKeys
from control_domain.tables.accounts import Account
from control_domain.tables.configuration import Review, RunStep
from control_domain.tables.sites import Site
from control_workers.configuration_runs import Checkpoint
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.deploy_states import StepStatus
from tests.support.eleven_steps import (
    BINDINGS,
    COUNT,
    DOCUMENT,
    EFFECTS,
    SECRET,
    Database,
    Directory,
    check_done,
    effects,
)
from tests.support.reviewed_project import ReviewedProject, statuses
from tests.support.reviews import add_run

# A lease that has expired by the next attempt.
SHORT = timedelta(milliseconds=50)


def _find_own_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of the control plane: servers and tasks of earlier tests may still log something."""
    return [
        record for record in caplog.records if record.name.startswith(("control_domain.", "control_workers."))
    ]


@pytest.mark.parametrize(
    ("checkpoint", "position", "away"),
    [
        ("started", 0, 1),
        ("applied", 0, math.inf),
        ("applied", 8, 1),
        ("published", 8, math.inf),
        # Each checkpoint with the other duration.
        pytest.param("started", 0, math.inf, marks=pytest.mark.full),
        pytest.param("applied", 0, 1, marks=pytest.mark.full),
        pytest.param("applied", 8, math.inf, marks=pytest.mark.full),
        pytest.param("published", 8, 1, marks=pytest.mark.full),
    ],
)
async def test_a_worker_continues_after_a_database_outage(
    begun: ReviewedProject,
    caplog: pytest.LogCaptureFixture,
    checkpoint: Checkpoint,
    position: int,
    away: float,
) -> None:
    """`away` is the number of sessions that fail."""
    database = begun.sessions = Database(begun.platform.sessions)
    gone = asyncio.Event()

    async def cut(this: Checkpoint, place: int) -> None:
        if (this, place) == (checkpoint, position) and not gone.is_set():
            database.away = away
            gone.set()

    run = await begun.begin(DOCUMENT, BINDINGS)
    with caplog.at_level(logging.WARNING, "control_workers"):
        async with begun.working(lease=SHORT, on_checkpoint=cut) as worker:
            await gone.wait()
            for _ in range(10):
                worker.wake()
                await asyncio.sleep(0.02)
            database.away = 0
            worker.wake()
            result = await begun.finished(run["id"])
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS
    # One record per outage.
    assert [record.getMessage() for record in _find_own_records(caplog)] == [
        "configuration runs wait for the database: The database does not answer now."
    ]


# At least one of this many statements and commits fails. The eleven steps take more than twice as many commits.
_EVERY = {"a statement": 100, "a commit": 12, "a commit that was done": 12}


class _Unreliable:
    """An engine that fails some of its statements and commits, before or after they are executed. The failures are not
    random for each: the number of statements depends on the wait for the lease, and a few statements might all succeed.
    """

    def __init__(self, engine: AsyncEngine, chance: random.Random) -> None:
        self._chance = chance
        self.failures = Counter[str]()
        self._left = {kind: self._draw(kind) for kind in _EVERY}
        dialect = engine.sync_engine.dialect
        self._commit = dialect.do_commit
        dialect.do_commit = self._do_commit  # type: ignore[method-assign]
        event.listen(engine.sync_engine, "before_cursor_execute", self._on_statement)

    def _on_statement(self, _connection: Any, _cursor: Any, _statement: str, *_: Any) -> None:
        self._fail("a statement")

    def _do_commit(self, connection: Any) -> None:
        self._fail("a commit")
        self._commit(connection)
        self._fail("a commit that was done")

    def _draw(self, kind: str) -> int:
        return self._chance.randint(1, _EVERY[kind])

    def _fail(self, kind: str) -> None:
        self._left[kind] -= 1
        if self._left[kind] == 0:
            self._left[kind] = self._draw(kind)
            self.failures[kind] += 1
            raise DatabaseUnavailable("The database does not answer now.")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.both_databases),
        *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 6)),
    ],
)
async def test_each_step_is_applied_once_whichever_statement_fails(begun: ReviewedProject, seed: int) -> None:
    run = await begun.begin(DOCUMENT, BINDINGS)
    engine = open_engine(begun.platform.engine.url.render_as_string(hide_password=False))
    unreliable = _Unreliable(engine, random.Random(seed))
    begun.sessions = open_sessions(engine)
    try:
        async with begun.working(lease=SHORT) as worker, asyncio.timeout(120):
            while (result := await begun.read(run["id"]))["status"] == "running":
                worker.wake()
                await asyncio.sleep(0.01)
    finally:
        await engine.dispose()
    assert unreliable.failures.total() > 3
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS


@pytest.mark.both_databases
async def test_failed_publications_are_retried(begun: ReviewedProject) -> None:
    """This covers created and removed keys. No step is applied twice."""
    directory = begun.directory = Directory()
    await publish_keys(begun.platform.sessions, directory, datetime.now(UTC))
    [old] = [digest_credential(site.public_id) for site in await begun.rows(Site, Site.name == "old")]
    assert await directory.find(old) is not None
    run = await begun.begin(DOCUMENT, BINDINGS)
    directory.is_away = True

    async def come_and_go(checkpoint: Checkpoint, position: int) -> None:
        # The first two attempts to publish each key fail.
        tries[position] += checkpoint == "started"
        directory.is_away = tries[position] < 3

    tries = Counter[int]()
    async with begun.working(on_checkpoint=come_and_go):
        for position, count in ((4, 8), (8, 13), (9, 14), (10, 15)):
            for attempt in (1, 2):
                result = await begun.finished(run["id"])
                assert result["status"] == "failed"
                failed = result["operations"][position]
                assert (failed["status"], failed["attempts"]) == ("failed", attempt)
                assert failed["error"] == (
                    "It is done, but the edges could not be informed: The key directory does not answer now. "
                    "Retry the operation to inform them."
                )
                assert statuses(result)[position + 1 :] == ["pending"] * (COUNT - position - 1)
                assert len(await effects(begun)) == count
                # Its secrets are not needed any more.
                (row,) = await begun.rows(RunStep, RunStep.id == failed["id"])
                assert (row.sealed, row.publications is None) == (None, False)
                assert (await begun.move_step(result["id"], failed["id"], "retry")).status == 200
        result = await begun.finished(run["id"])
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS
    assert [one["attempts"] for one in result["operations"]] == [1, 1, 1, 1, 3, 1, 1, 1, 3, 3, 3]
    assert await directory.find(old) is None


async def test_a_broken_step_fails_and_blocks_no_other_project(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture
) -> None:
    """If the step were started again and again, no person could cancel it or apply another document."""
    run = await begun.begin(DOCUMENT, BINDINGS)
    broken = run["operations"][1]["id"]
    (row,) = await begun.rows(RunStep, RunStep.id == broken)
    nonsense = begun.keys.seal({"actions": f'[["update", "{SECRET}"]]'}, begun.project.public_id)
    await begun.change(RunStep, broken, sealed=nonsense.data)
    with caplog.at_level(logging.ERROR, "control_workers"):
        result = await begun.work(run["id"])
    assert statuses(result) == ["succeeded", "failed", *["pending"] * (COUNT - 2)]
    assert result["operations"][1]["error"] == (
        "It failed because of an error in Pharos; see the control plane's log. Retry it, or make a new review."
    )
    [record] = _find_own_records(caplog)
    assert record.getMessage() == f"step {broken} of configuration run {result['id']} failed"
    assert record.exc_info is not None
    # The step works with the value that was sealed first.
    await begun.change(RunStep, broken, sealed=row.sealed)
    async with begun.working():
        assert (await begun.move_step(result["id"], broken, "retry")).status == 200
        result = await begun.finished(result["id"])
    await check_done(begun, result)
    assert await effects(begun) == EFFECTS


async def test_a_step_sealed_with_a_lost_key_fails_with_a_reason(begun: ReviewedProject) -> None:
    run = await begun.begin(DOCUMENT, BINDINGS)
    keys = begun.keys
    begun.platform.app.state.variable_keys = SealingKeys.read("another secret of the test; long enough")
    result = await begun.work(run["id"])
    assert statuses(result) == ["failed", *["pending"] * (COUNT - 1)]
    assert "PHAROS_VARIABLES_KEY" in result["operations"][0]["error"]
    assert await effects(begun) == []
    begun.platform.app.state.variable_keys = keys
    async with begun.working():
        assert (await begun.move_step(result["id"], result["operations"][0]["id"], "retry")).status == 200
        await check_done(begun, await begun.finished(result["id"]))


@pytest.mark.both_databases
async def test_removing_a_project_during_a_run_does_not_stop_the_worker(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    acme = begun.platform.acme.account
    async with begun.platform.sessions() as session, session.begin():
        project = await create_project(session, acme, "Empty", "empty", now)
        action = Action("update", PROJECT, [Change("name", "Empty", "Full")])
        await add_run(session, begun.keys, project, [action] * 2, [StepStatus.PENDING] * 2, now)
    removed = []

    async def remove(checkpoint: Checkpoint, position: int) -> None:
        if not removed:
            async with begun.platform.sessions() as session, session.begin():
                account = await session.get_one(Account, acme.id)
                await remove_project(session, account, project, Actor("operator kim"), now)
            removed.append((checkpoint, position))

    with caplog.at_level(logging.WARNING, "control_workers"):
        async with begun.working(on_checkpoint=remove):
            async with asyncio.timeout(120):
                while not removed:
                    await asyncio.sleep(0.01)
            run = await begun.begin(DOCUMENT, BINDINGS)
            await check_done(begun, await begun.finished(run["id"]))
    assert removed == [("started", 0)]
    assert _find_own_records(caplog) == []


async def test_no_secret_is_stored_or_logged(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture
) -> None:
    run = await begun.begin(DOCUMENT, BINDINGS)
    with caplog.at_level(logging.DEBUG):
        result = await begun.work(run["id"])
        await check_done(begun, result)
    assert SECRET not in caplog.text
    assert SECRET not in repr(result)
    assert SECRET not in repr(await begun.platform.contents())


async def test_the_worker_cleans_up_expired_reviews(begun: ReviewedProject) -> None:
    review = await begun.review(DOCUMENT, BINDINGS)
    await begun.age(review, timedelta(minutes=15))
    async with begun.working(), asyncio.timeout(120):
        while (await begun.rows(Review, Review.id == review))[0].sealed is not None:
            await asyncio.sleep(0.01)
