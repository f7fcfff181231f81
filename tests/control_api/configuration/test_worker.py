"""Operations are carried out in their order, each once, whoever is at it and whatever goes away meanwhile."""

import asyncio
import contextlib
import logging
import math
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from control_api.accounts.tables import Account
from control_api.audit.operations import Actor
from control_api.configuration import worker as worker_module
from control_api.configuration.addresses import PROJECT
from control_api.configuration.plan import Action, Change
from control_api.configuration.tables import Application, Operation, Review
from control_api.configuration.worker import ApplicationWorker, Step
from control_api.database import Sessions, open_engine, open_sessions
from control_api.database_errors import DatabaseAway
from control_api.projects.operations import create_project
from control_api.projects.remove_project import remove_project
from control_api.sites.tables import Site
from control_api.variables.sealing import SealingKeys
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.deploy_states import OperationStatus
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from tests.support.reviewed_project import ReviewedProject, statuses
from tests.support.reviews import add_application

SECRET = "hunter2 hunter2 hunter2"
BINDINGS = {"token": SECRET}
# Of every kind; the site and what goes have to be told to the edges.
BEFORE = """\
environments:
  old: {type: development, heartbeats: {job: {period: 1h}}}
  staging: {variables: {A: "1"}, heartbeats: {nightly: {period: 1h}}}
sites:
  old: {domains: ["https://old.example"]}
"""
DOCUMENT = """\
project: {name: The blog}
environments:
  development: {replicas: 2, state: hibernated, locked: true}
  staging:
    name: Test
    variables: {A: "2", TOKEN: "${token}"}
    heartbeats: {nightly: {period: 2h}, other: {cron: "0 3 * * *"}}
    queues: {default: {}}
  new: {type: staging, order: 4, variables: {TOKEN: "${token}"}, queues: {default: {}}}
sites:
  docs: {domains: ["https://docs.example"], goals: [{name: Signup, path: /welcome}]}
delete: [environments.old, sites.old]
"""
COUNT = 11
# In the audit log.
EFFECTS = [
    "project.set",
    "environment.scale",
    "environment.state",
    "environment.lock",
    "variables.replace",
    "environment.set",
    "heartbeat.set",
    "heartbeat.create",
    "queue.create",
    "environment.create",
    "variables.replace",
    "queue.create",
    "site.create",
    "site.remove",
    "environment.remove",
]
SHORT = timedelta(milliseconds=50)


class Directory(InProcessKeyDirectory):
    """One that can be away, and counts what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.told: list[bytes] = []

    async def publish(self, entry: KeyEntry) -> None:
        self._tell(entry.digest)
        await super().publish(entry)

    async def revoke(self, digest: bytes) -> None:
        self._tell(digest)
        await super().revoke(digest)

    def _tell(self, digest: bytes) -> None:
        if self.is_away:
            raise StorageUnavailable("The key directory does not answer now.")
        self.told.append(digest)


class Database:
    """Makes sessions, or fails as a database that is away does: so many times."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.away: float = 0

    def __call__(self) -> AsyncSession:
        if self.away > 0:
            self.away -= 1
            raise DatabaseAway("The database does not answer now.")
        return self._sessions()


@pytest.fixture
async def begun(reviewed: ReviewedProject) -> AsyncIterator[ReviewedProject]:
    """The project with what the document changes, and a directory that may be away."""
    reviewed.directory = Directory()
    await reviewed.bring_about(BEFORE)
    yield reviewed


def _directory(begun: ReviewedProject) -> Directory:
    assert isinstance(begun.directory, Directory)
    return begun.directory


async def _effects(begun: ReviewedProject) -> list[str]:
    """What was carried out since the document was applied."""
    actions = [action for action, _ in await begun.audited()]
    last = max(place for place, action in enumerate(actions) if action == "configuration.apply")
    return [action for action in actions[last:] if not action.startswith("configuration.")]


async def _check_done(begun: ReviewedProject, told: Any) -> None:
    """All of it, each effect once; and a plan of the same changes nothing."""
    assert statuses(told) == ["succeeded"] * COUNT, told
    assert told["status"] == "succeeded"
    assert sorted(await _effects(begun)) == sorted(EFFECTS)
    rows = await begun.rows(Operation, Operation.application_id == told["id"])
    assert {(row.sealed, row.key_id, row.to_tell) for row in rows} == {(None, None, None)}
    again = DOCUMENT.partition("delete:")[0]
    plan = (await begun.ask("plan", again, BINDINGS)).data
    assert plan["actions"] == []
    assert "environments.old" not in plan["unmanaged"]
    sites = {site.name: site.public_id for site in await begun.rows(Site)}
    assert "old" not in sites
    assert await begun.directory.find(digest_credential(sites["docs"])) is not None


async def test_operations_are_carried_out_in_their_order_each_once(begun: ReviewedProject) -> None:
    steps: list[tuple[Step, int]] = []

    async def note(step: Step, position: int) -> None:
        steps.append((step, position))

    application = await begun.begin(DOCUMENT, BINDINGS)
    assert len(application["operations"]) == COUNT
    told = await begun.work(application["id"], on_step=note)
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS
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
        await _check_done(begun, await begun.finished(application["id"]))


async def test_what_it_was_not_told_of_is_found(begun: ReviewedProject) -> None:
    """Another control plane took the call."""
    async with begun.working():
        begun.platform.app.state.wake_applications = lambda: None
        application = await begun.begin(DOCUMENT, BINDINGS)
        await _check_done(begun, await begun.finished(application["id"]))


async def test_projects_do_not_wait_for_each_others_failures(begun: ReviewedProject) -> None:
    shop = ReviewedProject(begun.platform, "shop", begun.directory)
    first = await shop.begin("environments: {staging: {replicas: 3, name: Test}, production: {name: Live}}\n")
    await begun.platform.change("shop/staging", desired_replicas=7)
    second = await begun.begin(DOCUMENT, BINDINGS)
    async with begun.working():
        assert statuses(await shop.finished(first["id"])) == ["failed", "pending"]
        assert (await begun.finished(second["id"]))["status"] == "succeeded"


@pytest.mark.parametrize("milliseconds", [0, 1, 10, 15_000])
async def test_many_workers_carry_it_out_once(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, milliseconds: int
) -> None:
    """Though leases run out in the middle: whoever was too slow finds that it is somebody else's."""
    chance = random.Random(milliseconds)

    async def dawdle(step: Step, position: int) -> None:
        await asyncio.sleep(chance.uniform(0, 0.015))

    caplog.set_level(logging.WARNING, "control_api.configuration")
    application = await begun.begin(DOCUMENT, BINDINGS)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            lease = timedelta(milliseconds=milliseconds)
            await stack.enter_async_context(begun.working(lease=lease, on_step=dawdle))
        told = await begun.finished(application["id"])
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS


@pytest.mark.parametrize(
    ("step", "position"),
    [
        ("begun", 0),
        ("begun", 5),
        ("carried out", 5),
        ("begun", 8),
        ("carried out", 8),
        ("told", 8),
        ("told", 9),
    ],
)
async def test_a_worker_that_was_thought_dead_does_nothing_more(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, step: Step, position: int
) -> None:
    caplog.set_level(logging.WARNING, "control_api.configuration")
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
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS
    # It was begun twice, unless nothing was left but to say so.
    is_done = step == "carried out" and position == 5
    attempts = [one["attempts"] for one in told["operations"]]
    assert attempts[position] == (1 if is_done else 2)
    assert sum(attempts) == COUNT + (0 if is_done else 1)
    assert caplog.records == []


async def test_stop_ends_behind_the_operation(begun: ReviewedProject) -> None:
    stopped: list[ApplicationWorker] = []

    async def stop(step: Step, position: int) -> None:
        if (step, position) == ("begun", 2):
            stopped[0].stop()

    application = await begun.begin(DOCUMENT, BINDINGS)
    worker = ApplicationWorker(begun.platform.sessions, begun.directory, begun.keys, on_step=stop)
    stopped.append(worker)
    await worker.run()
    told = await begun.read(application["id"])
    assert statuses(told) == ["succeeded"] * 3 + ["pending"] * (COUNT - 3)
    assert told["status"] == "running"
    (row,) = await begun.rows(Application, Application.id == told["id"])
    assert (row.holder, row.leased_until) == (None, None)
    # Another one goes on, and waits for no lease.
    await _check_done(begun, await begun.work(application["id"]))


async def test_one_that_is_stopped_begins_nothing(begun: ReviewedProject) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    worker = ApplicationWorker(begun.platform.sessions, begun.directory, begun.keys)
    worker.stop()
    await worker.run()
    assert await begun.read(application["id"]) == application


async def test_whoever_is_alone_takes_what_a_dead_one_held(begun: ReviewedProject) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    later = datetime.now(UTC) + timedelta(days=1)
    await begun.change(Application, application["id"], holder="a dead one", leased_until=later)
    worker = ApplicationWorker(begun.platform.sessions, begun.directory, begun.keys)
    async with worker_module.applying(worker, is_alone=True):
        await _check_done(begun, await begun.finished(application["id"]))


@pytest.mark.parametrize("away", [1, math.inf])
@pytest.mark.parametrize(
    ("step", "position"), [("begun", 0), ("carried out", 0), ("carried out", 8), ("told", 8)]
)
async def test_it_goes_on_after_the_database_was_away(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture, step: Step, position: int, away: float
) -> None:
    """For a moment, or for long."""
    database = begun.sessions = Database(begun.platform.sessions)
    gone = asyncio.Event()

    async def cut(this: Step, place: int) -> None:
        if (this, place) == (step, position) and not gone.is_set():
            database.away = away
            gone.set()

    application = await begun.begin(DOCUMENT, BINDINGS)
    with caplog.at_level(logging.WARNING, "control_api.configuration"):
        async with begun.working(lease=SHORT, on_step=cut) as worker:
            await gone.wait()
            for _ in range(10):
                worker.wake()
                await asyncio.sleep(0.02)
            database.away = 0
            worker.wake()
            told = await begun.finished(application["id"])
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS
    # Once an outage.
    assert [record.getMessage() for record in caplog.records] == [
        "applications wait for the database: The database does not answer now."
    ]


class _Unreliable:
    """An engine a few of whose statements fail, and of whose commits too: before they are done, or behind that."""

    def __init__(self, engine: AsyncEngine, chance: random.Random) -> None:
        self._chance = chance
        self.failures = Counter[str]()
        dialect = engine.sync_engine.dialect
        self._commit = dialect.do_commit
        dialect.do_commit = self._do_commit  # type: ignore[method-assign]
        event.listen(engine.sync_engine, "before_cursor_execute", self._on_statement)

    def _on_statement(self, _connection: Any, _cursor: Any, _statement: str, *_: Any) -> None:
        self._fail("a statement", 0.02)

    def _do_commit(self, connection: Any) -> None:
        self._fail("a commit", 0.1)
        self._commit(connection)
        self._fail("a commit that was done", 0.1)

    def _fail(self, kind: str, probability: float) -> None:
        if self._chance.random() < probability:
            self.failures[kind] += 1
            raise DatabaseAway("The database does not answer now.")


@pytest.mark.parametrize("seed", range(6))
async def test_whichever_statement_fails_each_effect_comes_once(begun: ReviewedProject, seed: int) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    engine = open_engine(begun.platform.engine.url.render_as_string(hide_password=False))
    unreliable = _Unreliable(engine, random.Random(seed))
    begun.sessions = open_sessions(engine)
    try:
        async with begun.working(lease=SHORT) as worker, asyncio.timeout(60):
            while (told := await begun.read(application["id"]))["status"] == "running":
                worker.wake()
                await asyncio.sleep(0.01)
    finally:
        await engine.dispose()
    assert unreliable.failures.total() > 3
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS


async def test_edges_that_cannot_be_told_are_told_when_it_is_tried_again(begun: ReviewedProject) -> None:
    """What is made and what is removed: none of it is done twice."""
    directory = _directory(begun)
    application = await begun.begin(DOCUMENT, BINDINGS)
    directory.is_away = True

    async def come_and_go(step: Step, position: int) -> None:
        # Of each one the first two attempts fail.
        tries[position] += step == "begun"
        directory.is_away = tries[position] < 3

    tries = Counter[int]()
    async with begun.working(on_step=come_and_go):
        for position, effects in ((8, 13), (9, 14)):
            for attempt in (1, 2):
                told = await begun.finished(application["id"])
                assert told["status"] == "failed"
                failed = told["operations"][position]
                assert (failed["status"], failed["attempts"]) == ("failed", attempt)
                assert failed["error"] == (
                    "It is done, but the edges could not be told: The key directory does not answer now. "
                    "Try it again, which tells them."
                )
                assert statuses(told)[position + 1 :] == ["pending"] * (COUNT - position - 1)
                assert len(await _effects(begun)) == effects
                # Its secrets are not needed any more.
                (row,) = await begun.rows(Operation, Operation.id == failed["id"])
                assert (row.sealed, row.to_tell is None) == (None, False)
                assert (await begun.operate(told["id"], failed["id"], "retry")).status == 200
        told = await begun.finished(application["id"])
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS
    assert [one["attempts"] for one in told["operations"]] == [1] * 8 + [3, 3, 1]


async def test_an_operation_that_is_broken_fails_and_holds_nobody_up(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could cancel it, or apply anything else, if it were begun again and again."""
    application = await begun.begin(DOCUMENT, BINDINGS)
    broken = application["operations"][1]["id"]
    (row,) = await begun.rows(Operation, Operation.id == broken)
    nonsense = begun.keys.seal({"actions": f'[["update", "{SECRET}"]]'}, begun.project.public_id)
    await begun.change(Operation, broken, sealed=nonsense.data)
    with caplog.at_level(logging.ERROR, "control_api.configuration"):
        told = await begun.work(application["id"])
    assert statuses(told) == ["succeeded", "failed", *["pending"] * (COUNT - 2)]
    assert told["operations"][1]["error"] == (
        "It failed here, and the control plane's log says why. Try it again, or make a new review."
    )
    [record] = caplog.records
    assert record.getMessage() == f"operation {broken} of application {told['id']} has failed"
    assert record.exc_info is not None
    # What was sealed at first does.
    await begun.change(Operation, broken, sealed=row.sealed)
    async with begun.working():
        assert (await begun.operate(told["id"], broken, "retry")).status == 200
        told = await begun.finished(told["id"])
    await _check_done(begun, told)
    assert await _effects(begun) == EFFECTS


async def test_what_is_sealed_under_a_key_that_is_gone_fails_and_says_so(begun: ReviewedProject) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    keys = begun.keys
    begun.platform.app.state.variable_keys = SealingKeys.read("another secret of the test; long enough")
    told = await begun.work(application["id"])
    assert statuses(told) == ["failed", *["pending"] * (COUNT - 1)]
    assert "PHAROS_VARIABLES_KEY" in told["operations"][0]["error"]
    assert await _effects(begun) == []
    begun.platform.app.state.variable_keys = keys
    async with begun.working():
        assert (await begun.operate(told["id"], told["operations"][0]["id"], "retry")).status == 200
        await _check_done(begun, await begun.finished(told["id"]))


async def test_a_project_that_is_removed_in_the_middle_ends_nothing_else(
    begun: ReviewedProject, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    acme = begun.platform.acme.account
    async with begun.platform.sessions() as session, session.begin():
        project = await create_project(session, acme, "Empty", "empty", now)
        action = Action("update", PROJECT, [Change("name", "Empty", "Full")])
        await add_application(session, begun.keys, project, [action] * 2, [OperationStatus.PENDING] * 2, now)
    removed = []

    async def remove(step: Step, position: int) -> None:
        if not removed:
            async with begun.platform.sessions() as session, session.begin():
                account = await session.get_one(Account, acme.id)
                await remove_project(session, account, project, Actor("operator kim"), now)
            removed.append((step, position))

    with caplog.at_level(logging.WARNING, "control_api.configuration"):
        async with begun.working(on_step=remove):
            async with asyncio.timeout(60):
                while not removed:
                    await asyncio.sleep(0.01)
            application = await begun.begin(DOCUMENT, BINDINGS)
            await _check_done(begun, await begun.finished(application["id"]))
    assert removed == [("begun", 0)]
    assert caplog.records == []


async def test_no_secret_is_kept_or_told(begun: ReviewedProject, caplog: pytest.LogCaptureFixture) -> None:
    application = await begun.begin(DOCUMENT, BINDINGS)
    with caplog.at_level(logging.DEBUG):
        told = await begun.work(application["id"])
        await _check_done(begun, told)
    assert SECRET not in caplog.text
    assert SECRET not in repr(told)
    assert SECRET not in repr(await begun.platform.contents())


async def test_what_has_expired_is_given_up(begun: ReviewedProject) -> None:
    review = await begun.review(DOCUMENT, BINDINGS)
    await begun.age(review, timedelta(minutes=15))
    async with begun.working(), asyncio.timeout(60):
        while (await begun.rows(Review, Review.id == review))[0].sealed is not None:
            await asyncio.sleep(0.01)
