"""The objects that the first start creates, and the repairs of later starts."""

import asyncio
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import DEFAULT_LIMIT, create_account, create_person, find_caller
from control_domain.accounts.roles import SCOPES
from control_domain.audit import Actor, list_newest_entries
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.first_account.account import (
    ensure_first_account,
    ensure_secret,
    name_first_environment,
    write_private,
)
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import (
    create_environment,
    create_project,
    find_environment_by_key,
    live_ingest_keys,
)
from control_domain.removals.remove_environment import remove_environment
from control_domain.sites.operations import find_sites, live_sites
from control_domain.tables.accounts import Account, ApiToken, Membership, Person
from control_domain.tables.monitors import Heartbeat, HeartbeatState, MonitorKey, Queue
from control_domain.tables.projects import Environment, Project
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.settings import BadSettings, Settings
from storage_backends.key_directory.interface import SiteEntry

NOW = datetime.now(UTC)


async def test_the_first_start_makes_an_account_with_working_keys(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    credentials = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert json.loads(path.read_text()) == credentials
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with sessions() as session:
        caller = await find_caller(session, digest_credential(credentials["api_token"]), NOW)
        environment = await find_environment_by_key(
            session, digest_credential(credentials["ingest_key"]), NOW
        )
        (entry,) = await live_ingest_keys(session, NOW)
    assert caller is not None
    assert environment is not None
    assert caller.account.public_id == credentials["account_id"] == entry.account_id
    assert environment.public_id == credentials["environment_id"] == entry.environment_id
    assert credentials["project_id"] == entry.project_id
    assert entry.limit == RateLimit(5000, 50_000)


async def test_the_first_environment_is_named(sessions: Sessions, tmp_path: Path) -> None:
    assert await name_first_environment(sessions, "acc_none") is None
    credentials = await ensure_first_account(sessions, Settings(), tmp_path / "c.json", "http://x/api")
    account_id = credentials["account_id"]
    assert await name_first_environment(sessions, account_id) == ("my-project/production", False)
    async with sessions() as session, session.begin():
        other = await create_account(session, "Other", "other", DEFAULT_LIMIT, NOW)
        await create_project_with_environment(session, other, "other")
    assert await name_first_environment(sessions, account_id) == ("my-project/production", False)
    async with sessions() as session, session.begin():
        account = (await session.execute(select(Account).where(Account.public_id == account_id))).scalar_one()
        await create_project_with_environment(session, account, "shop")
    assert await name_first_environment(sessions, account_id) == ("my-project/production", True)


async def create_project_with_environment(session: AsyncSession, account: Account, slug: str) -> None:
    project = await create_project(session, account, slug, slug, NOW)
    await create_environment(session, project, "Staging", "staging", "staging", NOW)


async def test_later_start_keeps_the_keys_and_writes_the_new_address(
    sessions: Sessions, tmp_path: Path
) -> None:
    path = tmp_path / "credentials.json"
    first = await ensure_first_account(sessions, Settings(), path, "http://x:1/api")
    path.write_text(json.dumps({**first, "note": {"of": "mine"}}))
    second = await ensure_first_account(sessions, Settings(), path, "http://x:2/api")
    dsn = f"http://{first['ingest_key']}@x:2/1"
    assert second == {**first, "base_url": "http://x:2/api", "sentry_dsn": dsn, "note": {"of": "mine"}}


@pytest.mark.parametrize("left", [None, "", "{", "[]", '{"base_url": "x"}'])
async def test_lost_credentials_are_made_again_for_the_same_account(
    sessions: Sessions, tmp_path: Path, left: str | None
) -> None:
    path = tmp_path / "credentials.json"
    first = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    path.unlink()
    if left is not None:
        path.write_text(left)
    second = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    same = ("account_id", "project_id", "environment_id")
    assert [second[name] for name in same] == [first[name] for name in same]
    assert second["ingest_key"] != first["ingest_key"]
    async with sessions() as session:
        assert (
            await find_environment_by_key(session, digest_credential(second["ingest_key"]), NOW) is not None
        )
        assert (await session.execute(select(func.count()).select_from(Account))).scalar_one() == 1


@pytest.mark.parametrize("fault", ["revoked", "expired", "few scopes", "unknown", "former member"])
async def test_a_token_that_cannot_do_everything_is_replaced(
    sessions: Sessions, tmp_path: Path, fault: str
) -> None:
    """The token in a data folder of an older version has four scopes. The other keys stay."""
    path = tmp_path / "credentials.json"
    first = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    async with sessions() as session, session.begin():
        match fault:
            case "revoked":
                await session.execute(update(ApiToken).values(revoked_at=NOW))
            case "expired":
                await session.execute(update(ApiToken).values(expires_at=NOW - timedelta(days=1)))
            case "few scopes":
                await session.execute(update(ApiToken).values(scopes="account:read deploy:read"))
            case "unknown":
                path.write_text(json.dumps({**first, "api_token": 7}))
            case "former member":
                account = (await session.execute(select(Account))).scalar_one()
                await create_person(session, account, "Ada", "ada@example.com", "owner", NOW)
                owner = select(Person.id).where(Person.email == "owner@localhost").scalar_subquery()
                await session.execute(delete(Membership).where(Membership.person_id == owner))
    second = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert second == {**first, "api_token": second["api_token"]}
    assert second["api_token"] != first["api_token"]
    async with sessions() as session:
        caller = await find_caller(session, digest_credential(second["api_token"]), datetime.now(UTC))
    assert caller is not None and caller.scopes == set(SCOPES) and caller.role == "owner"
    assert await ensure_first_account(sessions, Settings(), path, "http://x/api") == second


async def test_each_token_of_a_start_is_in_the_audit_log(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    await ensure_first_account(sessions, Settings(), path, "http://x/api")
    async with sessions() as session:
        (entry,) = await list_newest_entries(session, 10)
    assert (entry["action"], entry["source"]) == ("token.create", "start of the installation")


async def test_a_rate_in_the_settings_replaces_the_accounts(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    await ensure_first_account(sessions, Settings(ingest_rate=7.0), path, "http://x/api")
    async with sessions() as session:
        assert [entry.limit for entry in await live_ingest_keys(session, NOW)] == [RateLimit(7, 50_000)]
    await ensure_first_account(sessions, Settings(ingest_burst=9), path, "http://x/api")
    async with sessions() as session:
        assert [entry.limit for entry in await live_ingest_keys(session, NOW)] == [RateLimit(7, 9)]


async def test_the_owner_gets_an_address_once(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"

    async def start(email: str | None) -> tuple[list[str], list[str]]:
        await ensure_first_account(sessions, Settings(owner_email=email), path, "http://x/api")
        async with sessions() as session:
            emails = (await session.scalars(select(Person.email).order_by(Person.id))).all()
            entries = await list_newest_entries(session, 10)
        return list(emails), [entry["action"] for entry in entries]

    made = ["token.create"]
    assert await start(None) == (["owner@localhost"], made)
    async with sessions() as session, session.begin():
        account = (await session.execute(select(Account))).scalar_one()
        await create_person(session, account, "Ada", "ada@x.example", "owner", NOW)
    # The address of another person.
    assert await start("ada@x.example") == (["owner@localhost", "ada@x.example"], made)
    changed = (["bob@x.example", "ada@x.example"], ["person.email", *made])
    assert await start(" Bob@x.example") == changed
    assert await start("carl@x.example") == changed
    for wrong in ("bob", "a@b@c", ""):
        with pytest.raises(BadSettings, match="PHAROS_OWNER_EMAIL: must be one e-mail address"):
            await start(wrong)


async def test_the_first_start_knows_the_address_of_the_owner(sessions: Sessions, tmp_path: Path) -> None:
    settings = Settings(owner_email="Ops@x.example")
    await ensure_first_account(sessions, settings, tmp_path / "c.json", "http://x/api")
    async with sessions() as session:
        assert (await session.scalars(select(Person.email))).all() == ["ops@x.example"]


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    first = ensure_secret(tmp_path / "receipt.key")
    assert (ensure_secret(tmp_path / "receipt.key"), len(first)) == (first, 43)


def test_a_file_that_several_write_at_once_is_one_of_theirs_and_private(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    texts = [f"{letter}" * 100_000 for letter in "abcd"]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            list(pool.map(lambda text: write_private(path, text), texts))
            assert path.read_text() in texts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


async def test_a_burst_that_the_column_does_not_hold_is_a_bad_setting(
    sessions: Sessions, tmp_path: Path
) -> None:
    with pytest.raises(BadSettings, match="PHAROS_INGEST_BURST: at most 2147483647"):
        await ensure_first_account(sessions, Settings(ingest_burst=2**31), tmp_path / "c", "http://x/api")
    await ensure_first_account(sessions, Settings(ingest_burst=2**31 - 1), tmp_path / "c", "http://x/api")


@pytest.mark.both_databases
async def test_first_starts_at_once_share_one_account(
    sessions: Sessions, database_url: str, tmp_path: Path
) -> None:
    # One engine for each, as separate processes have.
    engines = [open_engine(database_url) for _ in range(4)]
    made = await asyncio.gather(
        *(
            ensure_first_account(open_sessions(engine), Settings(), tmp_path / f"{n}.json", "http://x/api")
            for n, engine in enumerate(engines)
        )
    )
    same = ("account_id", "project_id", "environment_id")
    assert len({tuple(credentials[name] for name in same) for credentials in made}) == 1
    assert len({credentials["ingest_key"] for credentials in made}) == 4
    async with sessions() as session:
        assert (await session.execute(select(func.count()).select_from(Account))).scalar_one() == 1
        for credentials in made:
            key = digest_credential(credentials["ingest_key"])
            assert await find_environment_by_key(session, key, datetime.now(UTC)) is not None
    for engine in engines:
        await engine.dispose()


async def test_it_makes_a_heartbeat_and_a_queue_with_working_keys(sessions: Sessions, tmp_path: Path) -> None:
    credentials = await ensure_first_account(sessions, Settings(), tmp_path / "c.json", "http://x/api")
    async with sessions() as session:
        entries = {entry.monitor: entry for entry in await live_monitor_keys(session, NOW)}
    assert set(entries) == {
        f"heartbeat/{credentials['heartbeat']['id']}",
        f"queue/{credentials['queue']['id']}",
    }
    for kind in ("heartbeat", "queue"):
        entry = entries[f"{kind}/{credentials[kind]['id']}"]
        assert entry.digest == digest_credential(credentials[kind]["key"])
        assert (entry.account_id, entry.environment_id) == (
            credentials["account_id"],
            credentials["environment_id"],
        )


async def test_an_installation_from_before_monitors_gets_them(sessions: Sessions, tmp_path: Path) -> None:
    """Existing objects stay. An object whose key was never written to the file gets a new key, and is not created
    again."""
    path = tmp_path / "credentials.json"
    before = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    older = {name: value for name, value in before.items() if name not in ("heartbeat", "queue")}
    write_private(path, json.dumps(older))
    after = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert {name: after[name] for name in older} == older
    assert [after[kind]["id"] for kind in ("heartbeat", "queue")] == [
        before[kind]["id"] for kind in ("heartbeat", "queue")
    ]
    assert after["heartbeat"]["key"] != before["heartbeat"]["key"]
    assert await ensure_first_account(sessions, Settings(), path, "http://x/api") == after


@pytest.mark.both_databases
async def test_upgrades_at_once_share_one_heartbeat_and_one_queue(
    sessions: Sessions, database_url: str, tmp_path: Path
) -> None:
    """Several processes of the new version start on an installation that has neither."""
    before = await ensure_first_account(sessions, Settings(), tmp_path / "c.json", "http://x/api")
    async with sessions() as session, session.begin():
        for table in (MonitorKey, HeartbeatState, Heartbeat, Queue):
            await session.execute(delete(table))
    older = {name: value for name, value in before.items() if name not in ("heartbeat", "queue")}
    engines = [open_engine(database_url) for _ in range(4)]
    for n in range(4):
        write_private(tmp_path / f"{n}.json", json.dumps(older))
    made = await asyncio.gather(
        *(
            ensure_first_account(open_sessions(engine), Settings(), tmp_path / f"{n}.json", "http://x/api")
            for n, engine in enumerate(engines)
        )
    )
    async with sessions() as session:
        entries = {
            entry.digest: entry.monitor for entry in await live_monitor_keys(session, datetime.now(UTC))
        }
        assert (await session.execute(select(func.count()).select_from(HeartbeatState))).scalar_one() == 1
    for credentials in made:
        assert {name: credentials[name] for name in older} == older
        for kind in ("heartbeat", "queue"):
            assert entries[digest_credential(credentials[kind]["key"])] == f"{kind}/{credentials[kind]['id']}"
    assert len(entries) == 8
    assert len(set(entries.values())) == 2
    for engine in engines:
        await engine.dispose()


async def test_it_makes_a_site_that_the_edges_know(sessions: Sessions, tmp_path: Path) -> None:
    credentials = await ensure_first_account(sessions, Settings(), tmp_path / "c.json", "http://x/api")
    site = credentials["site"]
    assert set(site) == {"id", "tracker_id", "origin"}
    assert site["origin"] == "http://localhost:8080"
    async with sessions() as session:
        (seen,) = await find_sites(session, site["id"])
        (entry,) = await live_sites(session)
    assert (seen.site.name, seen.site.timezone, seen.domains) == ("My site", "UTC", [site["origin"]])
    assert seen.site.public_id == site["tracker_id"]
    assert (entry.account_id, entry.project_id) == (credentials["account_id"], credentials["project_id"])
    assert entry.digest == digest_credential(site["tracker_id"])
    assert entry.site == SiteEntry(site["id"], (site["origin"],))


@pytest.mark.parametrize("left", [None, {}, {"id": 1}, "text"], ids=str)
async def test_an_installation_from_before_sites_gets_one(
    sessions: Sessions, tmp_path: Path, left: object
) -> None:
    path = tmp_path / "credentials.json"
    before = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    async with sessions() as session, session.begin():
        await session.execute(delete(Site))
    older = {name: value for name, value in before.items() if name != "site"}
    write_private(path, json.dumps(older if left is None else {**older, "site": left}))
    after = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert {name: after[name] for name in older} == older
    assert after["site"]["tracker_id"] != before["site"]["tracker_id"]
    assert await ensure_first_account(sessions, Settings(), path, "http://x/api") == after


async def test_site_missing_in_the_file_is_written_with_its_present_domain(
    sessions: Sessions, tmp_path: Path
) -> None:
    """The file gets the present domain of the site."""
    path = tmp_path / "credentials.json"
    before = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    async with sessions() as session, session.begin():
        await session.execute(update(Site).values(domains='["https://shop.example", "https://a.example"]'))
    path.unlink()
    after = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert after["site"] == {**before["site"], "origin": "https://shop.example"}


@pytest.mark.both_databases
async def test_upgrades_at_once_share_one_site(sessions: Sessions, database_url: str, tmp_path: Path) -> None:
    before = await ensure_first_account(sessions, Settings(), tmp_path / "c.json", "http://x/api")
    async with sessions() as session, session.begin():
        await session.execute(delete(Site))
    older = {name: value for name, value in before.items() if name != "site"}
    engines = [open_engine(database_url) for _ in range(4)]
    for n in range(4):
        write_private(tmp_path / f"{n}.json", json.dumps(older))
    made = await asyncio.gather(
        *(
            ensure_first_account(open_sessions(engine), Settings(), tmp_path / f"{n}.json", "http://x/api")
            for n, engine in enumerate(engines)
        )
    )
    assert len({credentials["site"]["tracker_id"] for credentials in made}) == 1
    for engine in engines:
        await engine.dispose()


async def _remove_environment(sessions: Sessions, public_id: str) -> None:
    async with sessions() as session, session.begin():
        query = select(Environment, Project).join(Project, Project.id == Environment.project_id)
        row = (await session.execute(query.where(Environment.public_id == public_id))).one()
        await remove_environment(session, DeployTarget(*row), Actor("test"), NOW)


async def test_start_succeeds_after_all_environments_were_removed(sessions: Sessions, tmp_path: Path) -> None:
    """Removed objects are not created again. A new environment brings new credentials."""
    path = tmp_path / "credentials.json"
    first = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    await _remove_environment(sessions, first["environment_id"])
    again = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert again == first
    async with sessions() as session:
        assert (await session.execute(select(Environment))).all() == []
    path.unlink()
    new = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert (new["account_id"], new["project_id"]) == (first["account_id"], first["project_id"])
    assert new["environment_id"] != first["environment_id"]
    async with sessions() as session:
        assert await find_environment_by_key(session, digest_credential(new["ingest_key"]), NOW) is not None
    await _remove_environment(sessions, new["environment_id"])
    async with sessions() as session, session.begin():
        await session.execute(delete(Goal))
        await session.execute(delete(Site))
        await session.execute(delete(Project))
    path.unlink()
    other = await ensure_first_account(sessions, Settings(), path, "http://x/api")
    assert (other["account_id"], other["site"]["origin"]) == (first["account_id"], "http://localhost:8080")
