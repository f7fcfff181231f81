"""The repository that the first start connects, and the repairs of later starts."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.database.engine import Sessions
from control_domain.first_account.account import ensure_first_account
from control_domain.first_account.repository import ensure_first_repository
from control_domain.repositories.operations import connect_repository, disconnect_repository
from control_domain.repositories.webhook_secrets import open_secret
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.settings import Settings

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
KEYS = SealingKeys.read("k" * 43)
URL = "/var/lib/pharos/repository.git"

Ensure = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


async def make() -> str | None:
    """Stands for git, which has created the files."""
    return URL


async def never_made() -> str | None:
    raise AssertionError("nothing should be created")


@pytest.fixture
async def credentials(sessions: Sessions, tmp_path: Path) -> dict[str, Any]:
    """The credentials that an earlier first start has created."""
    return await ensure_first_account(sessions, Settings(), tmp_path / "credentials.json", "http://x/api")


async def rows(sessions: Sessions) -> list[Repository]:
    async with sessions() as session:
        return list((await session.execute(select(Repository).order_by(Repository.id))).scalars())


async def kept_secret(sessions: Sessions, repository: int) -> WebhookSecret:
    async with sessions() as session:
        return open_secret(KEYS, await session.get_one(SealedWebhookSecret, repository))


async def test_the_first_project_gets_a_sample_with_a_secret_for_its_webhook(
    sessions: Sessions, credentials: dict[str, Any]
) -> None:
    made = await ensure_first_repository(sessions, KEYS, credentials, make, NOW)
    (row,) = await rows(sessions)
    assert (row.kind, row.url, row.branch, row.full_name) == ("github", URL, "main", None)
    assert (row.is_sample, row.push_deploys, row.allows_forks, row.disconnected_at) == (
        True,
        True,
        False,
        None,
    )
    async with sessions() as session:
        project = await session.get_one(Project, row.project_id)
    assert project.public_id == credentials["project_id"]
    told = made.pop("repository")
    assert made == {}
    assert told == {"id": row.id, "kind": "github", "secret": told["secret"]}
    assert await kept_secret(sessions, row.id) == WebhookSecret("hmac", told["secret"])


@pytest.mark.both_databases
async def test_existing_repository_credentials_stay(sessions: Sessions, credentials: dict[str, Any]) -> None:
    made = await ensure_first_repository(sessions, KEYS, credentials, make, NOW)
    again = await ensure_first_repository(sessions, KEYS, {**credentials, **made}, never_made, NOW)
    assert again == {}
    (row,) = await rows(sessions)
    assert (await kept_secret(sessions, row.id)).value == made["repository"]["secret"]


@pytest.mark.parametrize("left", [None, "text", {}, {"id": 1, "kind": "github"}], ids=str)
async def test_sample_without_a_stored_secret_gets_a_new_one(
    sessions: Sessions, credentials: dict[str, Any], left: object
) -> None:
    before = await ensure_first_repository(sessions, KEYS, credentials, make, NOW)
    present = credentials if left is None else {**credentials, "repository": left}
    after = await ensure_first_repository(sessions, KEYS, present, never_made, NOW)
    (row,) = await rows(sessions)
    assert after["repository"]["id"] == before["repository"]["id"] == row.id
    assert after["repository"]["secret"] != before["repository"]["secret"]
    assert (await kept_secret(sessions, row.id)).value == after["repository"]["secret"]


async def test_a_sample_that_was_disconnected_stays_so(
    sessions: Sessions, credentials: dict[str, Any]
) -> None:
    await ensure_first_repository(sessions, KEYS, credentials, make, NOW)
    async with sessions() as session, session.begin():
        await disconnect_repository(session, (await session.execute(select(Repository))).scalar_one(), NOW)
    assert await ensure_first_repository(sessions, KEYS, credentials, never_made, NOW) == {}
    (row,) = await rows(sessions)
    assert row.disconnected_at == NOW


@pytest.mark.parametrize("connected", [True, False])
async def test_project_that_had_a_repository_gets_no_sample(
    sessions: Sessions, credentials: dict[str, Any], connected: bool
) -> None:
    async with sessions() as session, session.begin():
        project = (await session.execute(select(Project))).scalar_one()
        own = await connect_repository(session, project.id, "git", "/srv/shop.git", "main", NOW)
        if not connected:
            await disconnect_repository(session, own, NOW)
    assert await ensure_first_repository(sessions, KEYS, credentials, never_made, NOW) == {}
    assert [row.url for row in await rows(sessions)] == ["/srv/shop.git"]


async def test_later_start_creates_the_repository_if_files_were_missing(
    sessions: Sessions, credentials: dict[str, Any]
) -> None:
    async def fail() -> str | None:
        return None

    assert await ensure_first_repository(sessions, KEYS, credentials, fail, NOW) == {}
    assert await rows(sessions) == []
    made = await ensure_first_repository(sessions, KEYS, credentials, make, NOW)
    assert set(made) == {"repository"}


async def test_no_repository_is_created_for_a_removed_project(
    sessions: Sessions, credentials: dict[str, Any]
) -> None:
    gone = {**credentials, "project_id": "prj_00000000000000000000000000"}
    assert await ensure_first_repository(sessions, KEYS, gone, never_made, NOW) == {}
    assert await rows(sessions) == []
