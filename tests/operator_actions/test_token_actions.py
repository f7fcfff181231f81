"""API tokens as an operator handles them, by the names of the actions, on both databases."""

from datetime import timedelta
from typing import Any

import pytest

from control_domain.accounts.roles import SCOPES
from control_domain.database.engine import Sessions
from control_domain.tables.accounts import ApiToken
from pipeline_contracts.credentials import CredentialKind, is_well_formed
from tests.support.operator import NOW, Operator, make_operator


@pytest.fixture
def operator(sessions: Sessions) -> Operator:
    return make_operator(sessions)


async def test_a_token_is_made_and_works(operator: Operator) -> None:
    beta = await operator.add_account("beta")
    told = await operator.act(
        "tokens/create",
        person="Owner@example.com",
        scopes=["deploy:write", "account:read", "deploy:write"],
        name="CI",
        expires_seconds=90 * 86_400,
    )
    secret = told.pop("api_token")
    assert is_well_formed(secret, CredentialKind.API_TOKEN)
    assert told == {
        "id": told["id"],
        "name": "CI",
        "account": {"id": beta["id"], "name": "Beta", "slug": "beta"},
        "person": beta["owner"],
        "scopes": ["account:read", "deploy:write"],
        "state": "live",
        "created_at": "2026-11-20T12:00:00.000Z",
        "expires_at": "2027-02-18T12:00:00.000Z",
        "last_used_at": None,
        "revoked_at": None,
    }
    caller = await operator.caller(secret)
    assert caller is not None
    assert (caller.account.slug, caller.person.email, caller.scopes) == (
        "beta",
        "owner@example.com",
        {"account:read", "deploy:write"},
    )
    end = NOW + timedelta(days=90)
    assert await operator.caller(secret, end) is None
    assert await operator.act("tokens/list") == [told]
    assert (await operator.act("tokens/list", at=end))[0]["state"] == "expired"
    entry = (await operator.act("audit/list", subject=f"token {told['id']}"))[0]
    assert entry["details"] == {
        "person": beta["owner"]["id"],
        "name": "CI",
        "scopes": ["account:read", "deploy:write"],
        "expires_at": "2027-02-18T12:00:00.000Z",
    }
    assert secret not in str(await operator.act("audit/list"))


async def test_a_token_without_name_and_end(operator: Operator) -> None:
    await operator.add_account("beta")
    told = await operator.act("tokens/create", person="owner@example.com", scopes=list(SCOPES))
    assert (told["name"], told["expires_at"], told["scopes"]) == ("made 2026-11-20", None, list(SCOPES))


@pytest.mark.both_databases
async def test_tokens_of_an_account_newest_first(operator: Operator) -> None:
    for slug in ("first", "second"):
        await operator.add_account(slug)
        for name in "ab":
            await operator.act(
                "tokens/create", person="owner@example.com", account_id=slug, scopes=SCOPES, name=name
            )
    assert [one["name"] for one in await operator.act("tokens/list", account_id="second")] == ["b", "a"]
    assert len(await operator.act("tokens/list")) == 4


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"scopes": []}, "A token has at least one scope: give --scope with account:read, analytics:read"),
        (
            {"scopes": ["deploy"]},
            "'deploy' is no scope: choose from account:read, analytics:read, deploy:read",
        ),
        ({"expires_seconds": 59}, "A token expires after 1 minute to 3650 days: write --expires 90d."),
        ({"expires_seconds": 10**12}, "A token expires after 1 minute to 3650 days"),
        ({"name": ""}, "A name has 1 to 100 printable characters"),
        (
            {"person": "eve@example.com"},
            "There is no person 'eve@example.com'; `pharos person list` shows all.",
        ),
        ({"account_id": "other"}, "owner@example.com is not in the account other: add them with"),
    ],
    ids=str,
)
async def test_invalid_tokens_are_refused(operator: Operator, wanted: dict[str, Any], told: str) -> None:
    await operator.add_account("beta")
    await operator.add_account("other", "other@example.com")
    full = {"person": "owner@example.com", "account_id": "beta", "scopes": ["account:read"], **wanted}
    assert told in await operator.expect_refusal("tokens/create", **full)
    assert await operator.count(ApiToken) == 0


@pytest.mark.both_databases
async def test_a_token_is_revoked_once(operator: Operator) -> None:
    await operator.add_account("beta")
    made = await operator.act("tokens/create", person="owner@example.com", scopes=["account:read"])
    for _ in range(2):
        told = await operator.act("tokens/revoke", id=made["id"])
        assert (told["state"], told["revoked"], told["id"]) == ("revoked", True, made["id"])
    assert await operator.caller(made["api_token"]) is None
    assert [action for action, _ in await operator.read_audit_log()] == [
        "account.create",
        "token.create",
        "token.revoke",
    ]
    assert await operator.expect_refusal("tokens/revoke", id=99) == (
        "There is no token 99: `pharos token list` shows all."
    )
    assert await operator.expect_refusal("tokens/revoke", id=2**31) == "2147483648 is no ID."
