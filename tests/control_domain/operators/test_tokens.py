"""The first token of a person, which the operator of the machine creates without the API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_domain.accounts.operations import create_account, create_person, find_caller
from control_domain.accounts.roles import SCOPES
from control_domain.audit import Actor, list_newest_entries
from control_domain.database.engine import Sessions
from control_domain.operators.tokens import create_first_token
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import Conflict, InvalidInput, NotFound, Problem
from pipeline_contracts.rate_limits import RateLimit

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
async def acme(sessions: Sessions) -> Sessions:
    """An account with an owner and a member, and another account with two owners."""
    async with sessions() as session, session.begin():
        first = await create_account(session, "Acme", "acme", RateLimit(1, 1), NOW)
        await create_person(session, first, "Olga", "olga@example.com", "owner", NOW)
        await create_person(session, first, "Max", "max@example.com", "member", NOW)
        second = await create_account(session, "Beta", "beta", RateLimit(1, 1), NOW)
        for name in ("ada", "eve"):
            await create_person(session, second, name, f"{name}@example.com", "owner", NOW)
    return sessions


async def _create(sessions: Sessions, **changes: Any) -> Any:
    given: dict[str, Any] = {
        **dict.fromkeys(("account", "person", "scopes", "name", "lifetime")),
        "actor": Actor("operator ada"),
        "now": NOW,
        **changes,
    }
    async with sessions() as session, session.begin():
        return await create_first_token(session, **given)


async def test_the_owner_gets_a_token_with_all_scopes(acme: Sessions) -> None:
    token = await _create(acme, account="acme")
    assert (token["person"]["email"], token["scopes"], token["expires_at"]) == (
        "olga@example.com",
        list(SCOPES),
        None,
    )
    async with acme() as session:
        caller = await find_caller(session, digest_credential(token["api_token"]), NOW)
        (entry,) = await list_newest_entries(session, 10)
    assert caller is not None and caller.account.slug == "acme" and caller.token_id == token["id"]
    assert (entry["action"], entry["subject"]) == ("token.create", f"token {token['id']}")
    assert token["api_token"] not in str(entry)


async def test_person_scopes_and_lifetime_can_be_chosen(acme: Sessions) -> None:
    token = await _create(
        acme,
        account="acme",
        person="MAX@example.com",
        scopes=["deploy:write", "deploy:read", "deploy:read"],
        lifetime=timedelta(days=1),
    )
    assert (token["person"]["email"], token["scopes"]) == ("max@example.com", ["deploy:read", "deploy:write"])
    async with acme() as session:
        digest = digest_credential(token["api_token"])
        assert await find_caller(session, digest, NOW + timedelta(hours=23)) is not None
        assert await find_caller(session, digest, NOW + timedelta(hours=25)) is None


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, Conflict, "several accounts. Name one of them: acme, beta"),
        ({"account": "beta"}, Conflict, "several owners. Name one of them: ada@example.com, eve@example.com"),
        ({"account": "acme", "person": "ada@example.com"}, NotFound, "has no member ada@example.com"),
        ({"account": "acme", "scopes": ["everything"]}, InvalidInput, "Fix the fields"),
        ({"account": "acme", "scopes": ["deploy:read", "x"]}, InvalidInput, "Fix the fields"),
        ({"account": "acme", "scopes": []}, InvalidInput, "Fix the fields"),
        ({"account": "acme", "lifetime": timedelta(days=3651)}, InvalidInput, "Fix the fields"),
        ({"account": "acme", "lifetime": timedelta(0)}, InvalidInput, "Fix the fields"),
        ({"account": "acme", "name": ""}, InvalidInput, "Fix the fields"),
    ],
)
async def test_impossible_tokens_are_refused(
    acme: Sessions, changes: dict[str, Any], error: type[Problem], message: str
) -> None:
    with pytest.raises(error, match=message):
        await _create(acme, **changes)
    async with acme() as session:
        assert await list_newest_entries(session, 10) == []
