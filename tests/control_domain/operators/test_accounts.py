"""Operations on accounts for the operator: creation with an owner, limits, and look-up by each identifier."""

import asyncio
import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select

from control_domain.accounts.operations import create_account, create_person
from control_domain.audit import Actor, list_newest_entries
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.operators.accounts import (
    create_account_with_owner,
    limit_account,
    list_accounts,
    resolve_account,
)
from control_domain.tables.accounts import Account, Membership, Person
from pipeline_contracts.errors import Conflict, InvalidInput, NameTaken, NotFound
from pipeline_contracts.rate_limits import RateLimit

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
OPERATOR = Actor("operator ada")


async def _create(sessions: Sessions, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "name": "Beta Ltd",
        "slug": None,
        "owner_name": "Ada",
        "owner_email": "ADA@b.example",
        "actor": OPERATOR,
        "now": NOW,
        **changes,
    }
    async with sessions() as session, session.begin():
        return await create_account_with_owner(session, **given)


async def _count(sessions: Sessions, table: Any) -> int:
    async with sessions() as session:
        return (await session.execute(select(func.count()).select_from(table))).scalar_one()


async def test_an_account_is_created_with_its_owner(sessions: Sessions) -> None:
    created = await _create(sessions)
    assert (created["slug"], created["owner"]["email"], created["is_owner_renamed"]) == (
        "beta-ltd",
        "ada@b.example",
        False,
    )
    async with sessions() as session:
        (listed,) = await list_accounts(session)
        (entry,) = await list_newest_entries(session, 10)
        assert (await session.execute(select(Membership.role))).scalar_one() == "owner"
    assert (listed["id"], listed["people_count"], listed["project_count"]) == (created["id"], 1, 0)
    assert (entry["action"], entry["source"], entry["account_id"]) == (
        "account.create",
        "operator ada",
        created["id"],
    )


async def test_a_known_person_keeps_the_name(sessions: Sessions) -> None:
    await _create(sessions)
    created = await _create(sessions, name="Gamma", owner_name="Countess Ada")
    assert (created["owner"]["name"], created["is_owner_renamed"]) == ("Ada", True)
    assert (await _count(sessions, Person), await _count(sessions, Membership)) == (1, 2)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "日本"}, "slug"),
        ({"slug": "7"}, "slug"),
        ({"owner_name": "a\nb"}, "owner_name"),
        *[({"owner_email": text}, "owner_email") for text in ("ada", "a@b@c", "a b@c", "@b", "x" * 250 + "@b.example")],
    ],
)  # fmt: skip
async def test_wrong_fields_are_named(sessions: Sessions, changes: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await _create(sessions, **changes)
    assert [error.field for error in refused.value.errors] == [field]
    assert await _count(sessions, Account) == 0


@pytest.mark.both_databases
async def test_a_slug_belongs_to_one_account(sessions: Sessions) -> None:
    await _create(sessions)
    with pytest.raises(NameTaken, match="beta-ltd"):
        await _create(sessions, owner_email="eve@b.example")
    assert (await _count(sessions, Account), await _count(sessions, Person)) == (1, 1)


@pytest.mark.both_databases
async def test_accounts_that_are_created_at_once_share_their_owner(
    sessions: Sessions, database_url: str
) -> None:
    """A conflict leaves nothing behind."""
    engines = [open_engine(database_url) for _ in range(4)]
    results = await asyncio.gather(
        *(_create(open_sessions(engine), name=f"At once {n}") for n, engine in enumerate(engines)),
        return_exceptions=True,
    )
    for engine in engines:
        await engine.dispose()
    created = [result for result in results if not isinstance(result, BaseException)]
    assert created and all(isinstance(each, dict | Conflict) for each in results)
    assert await _count(sessions, Person) == 1
    assert await _count(sessions, Account) == await _count(sessions, Membership) == len(created)


async def test_a_limit_is_changed(sessions: Sessions) -> None:
    await _create(sessions)
    async with sessions() as session, session.begin():
        account = await limit_account(session, None, RateLimit(0.5, 7), OPERATOR, NOW)
        assert (account.ingest_rate, account.ingest_burst) == (0.5, 7)
    async with sessions() as session:
        entry = (await list_newest_entries(session, 1))[0]
    assert entry["action"] == "account.limit"
    details = entry["details"] if isinstance(entry["details"], dict) else json.loads(entry["details"])
    assert details == {"from": {"rate": 5000.0, "burst": 50_000}, "to": {"rate": 0.5, "burst": 7}}


@pytest.mark.parametrize(
    ("rate", "burst", "fields"),
    [
        (0.0, 1, ["rate"]),
        (math.nan, 1, ["rate"]),
        (math.inf, 1, ["rate"]),
        (1e10, 0, ["rate", "burst"]),
        (1.0, 2**31, ["burst"]),
    ],
)
async def test_an_impossible_limit_changes_nothing(
    sessions: Sessions, rate: float, burst: int, fields: list[str]
) -> None:
    await _create(sessions)
    with pytest.raises(InvalidInput) as refused:
        async with sessions() as session, session.begin():
            await limit_account(session, None, RateLimit(rate, burst), OPERATOR, NOW)
    assert [error.field for error in refused.value.errors] == fields


async def test_an_account_is_found_by_number_id_or_slug(sessions: Sessions) -> None:
    async with sessions() as session, session.begin():
        with pytest.raises(NotFound, match="There is no account yet"):
            await resolve_account(session, None)
        first = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        assert await resolve_account(session, None) is first
        await create_account(session, "Beta", "beta", RateLimit(1, 1), NOW)
        for name in ("acme", first.public_id, str(first.id)):
            assert await resolve_account(session, name) is first
        with pytest.raises(Conflict, match="Name one of them: acme, beta"):
            await resolve_account(session, None)
        with pytest.raises(NotFound, match="There is no account nobody"):
            await resolve_account(session, "nobody")
        # People of other accounts do not count.
        await create_person(session, first, "Ada", "ada@example.com", "owner", NOW)
