"""Responses of the control plane while Postgres is unavailable, hangs, or is overloaded."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest
from fastapi import FastAPI
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from control_api import health
from control_api.app import build_control_app
from control_api.health import make_database_check
from control_api.request_session import Session
from control_domain.accounts.operations import create_account, create_api_token, create_person
from control_domain.database import postgres
from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.column_store.interface import ColumnStore
from tests.support.engines import or_skip
from tests.support.postgres_server import PostgresServer, running_postgres
from tests.support.serve_control import VARIABLE_KEYS

LIMIT = RateLimit(1, 1)
# Seconds. No call times out while the server works, even on a slow machine.
_LONG = 120.0
_LIMITS = ("_POOL_SECONDS", "_CONNECT_SECONDS", "_STATEMENT_SECONDS", "_CALL_SECONDS")
# A call that fails in less than this time has used a shortened limit: all other limits are far longer.
_IN_TIME = 45.0


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that tests may kill; commits are durable."""
    with or_skip(running_postgres(tmp_path_factory.mktemp("postgres"), durable=True)) as server:
        yield server


@dataclass
class Hurry:
    """Switches between the short time limits of a test and long ones."""

    short: Mapping[str, float]
    is_on: bool = False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Use the short limits of the test for connections and statements inside this context."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self, "is_on", True)
            patch.setattr(postgres, "_PING_SECONDS", self.short.get("_PING_SECONDS", _LONG))
            yield

    def of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a connection: with the program's time limits in a hurry, otherwise with long ones."""
        if self.is_on:
            return dict(options)
        settings = {**options["server_settings"], "statement_timeout": "0"}
        return {**options, "timeout": _LONG, "command_timeout": _LONG, "server_settings": settings}


@dataclass
class Control:
    server: PostgresServer
    app: FastAPI
    engine: AsyncEngine
    token: str
    hurry: Hurry

    async def ask(self, path: str = "/api/v1/account") -> tuple[int, dict[str, str]]:
        """Send a GET through ASGI; return status and headers."""
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {self.token}".encode())],
            "state": {},
        }
        await self.app(scope, receive, send)
        return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}

    async def must_be_unavailable(self, path: str = "/api/v1/account") -> None:
        status, headers = await self.ask(path)
        assert (status, headers["retry-after"]) == (503, "1")
        assert headers["content-type"] == "application/problem+json"

    async def must_work(self) -> None:
        assert (await self.ask())[0] == 200

    def route(self, path: str, call: Callable[[Session], Awaitable[None]]) -> None:
        self.app.add_api_route(path, call)

    async def until(self, question: str) -> None:
        """Wait until the server returns true for the query."""
        connection = await asyncpg.connect(self.server.url)
        try:
            async with asyncio.timeout(_LONG):
                while not await connection.fetchval(question):
                    await asyncio.sleep(0.02)
        finally:
            await connection.close()

    async def accounts(self, slug: str) -> int:
        async with self.engine.connect() as connection:
            query = select(func.count()).select_from(Account).where(Account.slug == slug)
            return (await connection.execute(query)).scalar_one()


@pytest.fixture
def short() -> Mapping[str, float]:
    """The short limits of a test, in seconds, for use within `Hurry`."""
    return {}


@pytest.fixture
async def control(
    own_server: PostgresServer, short: Mapping[str, float], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Control]:
    await _migrate(own_server)
    hurry, connect = Hurry(short), postgres._connect

    async def connect_with_patience(*arguments: Any, **options: Any) -> Any:
        return await connect(*arguments, **hurry.of(options))

    monkeypatch.setattr(postgres, "_connect", connect_with_patience)
    monkeypatch.setattr(health, "_CHECK_TIMEOUT_SECONDS", _LONG)
    for name in _LIMITS:
        monkeypatch.setattr(postgres, name, short.get(name, _LONG))
    monkeypatch.setattr(postgres, "_PING_SECONDS", _LONG)
    engine = open_engine(own_server.url)
    sessions = open_sessions(engine)
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        account = await create_account(session, "A", f"a-{time.time_ns()}", LIMIT, now)
        person = await create_person(session, account, "P", f"{time.time_ns()}@x", "owner", now)
        token = await create_api_token(session, account, person, "t", ["account:read"], now)
    # No route of these tests uses the column store.
    app = build_control_app(sessions, cast(ColumnStore, SimpleNamespace()), b"seal", VARIABLE_KEYS)
    yield Control(own_server, app, engine, token, hurry)
    own_server.resume()
    if own_server.process is None or own_server.process.poll() is not None:
        own_server.start()
    await engine.dispose()


async def _migrate(server: PostgresServer) -> None:
    engine = open_engine(server.url)
    await upgrade_database(engine)
    await engine.dispose()


async def _write(session: Session, slug: str) -> None:
    await create_account(session, "B", slug, LIMIT, datetime.now(UTC))


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_unavailable_server_is_503_until_it_is_back(control: Control, end: str) -> None:
    check = make_database_check(open_sessions(control.engine))
    # Several connections, all of which break.
    assert [status for status, _ in await asyncio.gather(*(control.ask() for _ in range(8)))] == [200] * 8
    assert await check() is None
    getattr(control.server, end)()
    for _ in range(3):
        await control.must_be_unavailable()
    await asyncio.gather(*(control.must_be_unavailable() for _ in range(20)))
    assert "does not answer" in (await check() or "")
    control.server.start()
    assert [status for status, _ in await asyncio.gather(*(control.ask() for _ in range(20)))] == [200] * 20
    assert await check() is None


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_restart_between_two_requests_is_invisible(control: Control, end: str) -> None:
    await control.must_work()
    getattr(control.server, end)()
    control.server.start()
    await control.must_work()


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_server_that_ends_in_a_statement_is_503(control: Control, end: str) -> None:
    async def slow(session: Session) -> None:
        await session.execute(text("SELECT pg_sleep(600)"))

    async def end_it() -> None:
        await control.until("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        getattr(control.server, end)()

    control.route("/slow", slow)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(end_it())
        await control.must_be_unavailable("/slow")
    control.server.start()
    await control.must_work()


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_server_that_ends_before_the_commit_is_503_and_stores_nothing(
    control: Control, end: str
) -> None:
    slug = f"lost-{time.time_ns()}"

    async def write(session: Session) -> None:
        await _write(session, slug)
        getattr(control.server, end)()

    control.route("/write", write)
    await control.must_be_unavailable("/write")
    control.server.start()
    await control.must_work()
    assert await control.accounts(slug) == 0


async def test_confirmed_writes_survive_a_kill(control: Control) -> None:
    slug = f"kept-{time.time_ns()}"

    async def write(session: Session) -> None:
        await _write(session, slug)

    control.route("/write", write)
    assert (await control.ask("/write"))[0] == 200
    control.server.kill()
    control.server.start()
    assert await control.accounts(slug) == 1


@pytest.mark.parametrize("short", [{"_PING_SECONDS": 0.5, "_CONNECT_SECONDS": 0.5}], ids=str)
async def test_hanging_server_is_503_in_time_and_recovers(control: Control) -> None:
    await control.must_work()
    control.server.pause()
    with control.hurry():
        # One connection of the pool, and a new one.
        async with asyncio.timeout(_IN_TIME):
            await asyncio.gather(*(control.must_be_unavailable() for _ in range(4)))
    control.server.resume()
    await control.must_work()


@pytest.mark.parametrize("short", [{"_CALL_SECONDS": 2.0}], ids=str)
async def test_server_hanging_in_a_statement_is_503_in_time(control: Control) -> None:
    async def slow(session: Session) -> None:
        await session.execute(text("SELECT 1"))
        control.server.pause()
        await session.execute(text("SELECT 1"))

    control.route("/slow", slow)
    # The pool's are for longer.
    await control.engine.dispose()
    with control.hurry():
        async with asyncio.timeout(_IN_TIME):
            await control.must_be_unavailable("/slow")
    control.server.resume()
    await control.must_work()


@pytest.mark.parametrize("short", [{"_STATEMENT_SECONDS": 1.0}], ids=str)
async def test_statement_timeout_is_503_and_keeps_the_connection(control: Control) -> None:
    used: list[int] = []

    async def quick(session: Session) -> None:
        used.append((await session.execute(text("SELECT pg_backend_pid()"))).scalar_one())

    async def slow(session: Session) -> None:
        await quick(session)
        await session.execute(text("SELECT pg_sleep(20)"))

    control.route("/quick", quick)
    control.route("/slow", slow)
    # The pool's are for longer.
    await control.engine.dispose()
    with control.hurry():
        await control.must_be_unavailable("/slow")
        assert (await control.ask("/quick"))[0] == 200
    assert len(used) == 2 and len(set(used)) == 1


@pytest.mark.parametrize("short", [{"_POOL_SECONDS": 0.5}], ids=str)
async def test_exhausted_connection_pool_is_503(control: Control) -> None:
    go_on = asyncio.Event()

    async def slow(session: Session) -> None:
        await session.execute(text("SELECT 1"))
        await go_on.wait()

    control.route("/slow", slow)
    asking = [asyncio.create_task(control.ask("/slow")) for _ in range(20)]
    async with asyncio.timeout(_IN_TIME):
        for answered in itertools.islice(asyncio.as_completed(asking), 5):
            assert (await answered)[0] == 503
    go_on.set()
    answers = [status for status, _ in await asyncio.gather(*asking)]
    assert sorted(answers) == [200] * 15 + [503] * 5
    await control.must_work()


async def test_missing_table_is_503_and_an_internal_error_is_500(control: Control) -> None:
    async def missing(session: Session) -> None:
        await session.execute(text("SELECT * FROM not_yet"))

    async def faulty(session: Session) -> None:
        await session.execute(text("SELECT 1 / 0"))

    control.route("/missing", missing)
    control.route("/faulty", faulty)
    await control.must_be_unavailable("/missing")
    with pytest.raises(Exception, match="division by zero"):
        # Starlette responds 500, then raises for the server's log.
        await control.ask("/faulty")


@pytest.mark.parametrize("short", [{"_STATEMENT_SECONDS": 1.0, "_CALL_SECONDS": 2.0}], ids=str)
async def test_upgrade_has_no_request_time_limit(control: Control) -> None:
    async with control.engine.begin() as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(7423651908)"))
        with control.hurry():
            upgrading = asyncio.create_task(upgrade_database(control.engine))
            await control.until(
                "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            )
        # Longer than the limit of a request in this test.
        await asyncio.sleep(2.5)
        assert not upgrading.done()
    await upgrading


async def test_upgrade_of_an_unavailable_server_is_storage_unavailable(control: Control) -> None:
    control.server.stop()
    with pytest.raises(StorageUnavailable, match="cannot be reached"):
        await upgrade_database(control.engine)
