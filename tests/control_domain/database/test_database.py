"""Database URLs, and the behaviour that both databases must share."""

import asyncio
import contextlib
import re
import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import create_account, create_api_token, create_person, find_caller
from control_domain.database import engine as database
from control_domain.database.engine import Sessions, open_engine
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.tables.accounts import Account, ApiToken
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit
from tests.support.cheap_engines import PREPARE_SQLITE

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


async def _account(session: AsyncSession, now: datetime) -> Account:
    return await create_account(session, "Acme", "acme", RateLimit(0.1, 2**31 - 1), now)


@pytest.mark.both_databases
async def test_times_of_other_zones_are_the_same_moment_when_read(sessions: Sessions) -> None:
    moment = NOW.replace(microsecond=123456).astimezone(timezone(timedelta(hours=-7)))
    async with sessions() as session, session.begin():
        await _account(session, moment)
    async with sessions() as session:
        account = await session.get_one(Account, 1)
    assert account.created_at == moment
    assert account.created_at.utcoffset() == timedelta(0)
    assert (account.ingest_rate, account.ingest_burst) == (0.1, 2**31 - 1)


@pytest.mark.both_databases
async def test_a_token_that_expires_in_another_zone_works_until_then(sessions: Sessions) -> None:
    async with sessions() as session, session.begin():
        account = await _account(session, NOW)
        person = await create_person(session, account, "Ada", "ada@x", "owner", NOW)
        secret = await create_api_token(session, account, person, "t", ["account:read"], NOW)
        token = await session.get_one(ApiToken, 1)
        token.expires_at = (NOW + timedelta(hours=1)).astimezone(timezone(timedelta(hours=5)))
    digest = digest_credential(secret)
    for minutes, works in ((59, True), (60, False), (61, False)):
        async with sessions() as session:
            caller = await find_caller(session, digest, NOW + timedelta(minutes=minutes))
        assert (caller is not None) == works, minutes


@pytest.mark.both_databases
async def test_a_time_without_a_zone_is_refused(sessions: Sessions) -> None:
    with pytest.raises(StatementError, match="a time needs its zone"):
        async with sessions() as session, session.begin():
            account = await _account(session, NOW)
            account.created_at = NOW.replace(tzinfo=None)


@pytest.mark.both_databases
async def test_the_end_of_a_savepoint_is_no_commit(sessions: Sessions) -> None:
    """This holds even if the transaction has only read before."""
    with pytest.raises(RuntimeError):
        async with sessions() as session, session.begin():
            await session.execute(text("SELECT * FROM accounts"))
            async with session.begin_nested():
                await _account(session, NOW)
            raise RuntimeError
    async with sessions() as session:
        assert await session.get(Account, 1) is None


@pytest.mark.both_databases
async def test_a_savepoint_that_fails_leaves_the_rest(sessions: Sessions) -> None:
    async with sessions() as session, session.begin():
        with pytest.raises(RuntimeError):
            async with session.begin_nested():
                await _account(session, NOW)
                raise RuntimeError
        other = await create_account(session, "Other", "other", RateLimit(1, 1), NOW)
    async with sessions() as session:
        assert (await session.execute(text("SELECT id, slug FROM accounts"))).all() == [(other.id, "other")]


@pytest.mark.both_databases
async def test_savepoint_that_has_read_may_still_write(sessions: Sessions) -> None:
    """Another writer waits, or has already written. Neither is refused."""

    async def write() -> None:
        async with sessions() as other, other.begin():
            await create_account(other, "Other", "other", RateLimit(1, 1), NOW)

    async with sessions() as session, session.begin(), session.begin_nested():
        await session.execute(text("SELECT * FROM accounts"))
        writing = asyncio.create_task(write())
        await asyncio.wait({writing}, timeout=1.0)
        await _account(session, NOW)
    await writing
    async with sessions() as session:
        slugs = await session.execute(text("SELECT slug FROM accounts ORDER BY slug"))
        assert slugs.scalars().all() == ["acme", "other"]


async def test_connections_have_an_application_name(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    async with engine.connect() as connection:
        for name, value in (("application_name", "pharos"), ("statement_timeout", "30s")):
            assert (await connection.execute(text(f"SHOW {name}"))).scalar_one() == value
    await engine.dispose()


@pytest.mark.parametrize(
    ("change", "works"),
    [
        (lambda url: url.replace("postgresql://", "postgres://"), True),
        (lambda url: url.replace("postgresql://", "postgresql+asyncpg://"), True),
        (lambda url: url + "?sslmode=disable", True),
        (lambda url: url + "?sslmode=prefer", True),
        # The server of the tests speaks no TLS.
        (lambda url: url + "?sslmode=require", False),
        (lambda url: url + "?sslmode=verify-ca&sslrootcert=/nowhere.pem", False),
        (lambda url: url + "?sslmode=verify-full&sslrootcert=/nowhere.pem", False),
        (lambda url: url.replace("pharos@", "pharos:se%2Fcr%40et@"), True),
        (lambda url: url.replace("pharos@", "nobody:se%2Fcr%40et@"), False),
        (lambda url: re.sub(r":\d+/", ":1/", url), False),
        (lambda url: url.replace("127.0.0.1", "pharos.invalid"), False),
        (lambda url: url.replace("/postgres", "/none"), False),
        (lambda url: url + "?no_such_parameter=1", False),
    ],
)
async def test_urls_of_postgres(postgres_url: str, change: Any, works: bool) -> None:
    engine = open_engine(change(postgres_url))
    if works:
        async with engine.connect() as connection:
            assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    else:
        with pytest.raises(StorageUnavailable, match="cannot be reached") as error:
            await upgrade_database(engine)
        assert "se/cr@et" not in str(error.value)
        assert "se%2Fcr" not in str(error.value)
    await engine.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense-hunter2",
        "mysql://u:hunter2@h/x",
        "sqlite:///hunter2",
        "postgresql+psycopg2://u:hunter2@h/x",
        "postgresql://u:hunter2@h:port/x",
        "postgresql://u:x@y:hunter2/x",
        "postgresql://u:hunter2@h/x?sslmode=sometimes",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StorageUnavailable, match="The database URL cannot be used") as error:
        open_engine(url)
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


async def test_connecting_to_a_silent_server_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("control_domain.database.postgres._CONNECT_SECONDS", 0.3)
    gone: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: gone.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    engine = open_engine(f"postgresql://pharos:hunter2@127.0.0.1:{port}/x")
    with pytest.raises(StorageUnavailable, match=r"cannot be reached \(TimeoutError\)"):
        await upgrade_database(engine)
    await engine.dispose()
    for writer in gone:
        writer.close()
    silent.close()


async def test_a_sqlite_file_that_cannot_be_opened_is_storage_unavailable() -> None:
    engine = open_engine("sqlite+aiosqlite:////nowhere/control.sqlite")
    with pytest.raises(StorageUnavailable, match="unable to open database file"):
        await upgrade_database(engine)
    await engine.dispose()


async def test_new_file_is_opened_while_another_process_writes_it(tmp_path: Path) -> None:
    """Several processes open a new data folder at once, and the first may be writing before the file is marked."""
    path = tmp_path / "new.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("CREATE TABLE notes (words TEXT)")
        first.execute("BEGIN IMMEDIATE")
        first.execute("INSERT INTO notes VALUES ('written')")
        asyncio.get_running_loop().call_later(0.2, first.execute, "COMMIT")
        engine = open_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() as connection:
            assert (await connection.execute(text("SELECT words FROM notes"))).scalars().all() == ["written"]
            assert (await connection.execute(text("PRAGMA journal_mode"))).scalars().all() == ["wal"]
        await engine.dispose()


async def test_sqlite_syncs_each_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_prepare_sqlite", PREPARE_SQLITE)
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path}/control.sqlite")
    async with engine.connect() as connection:
        found = [
            (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    await engine.dispose()
    # 2 is FULL: each commit is synced.
    assert found == ["wal", 2, 1]
