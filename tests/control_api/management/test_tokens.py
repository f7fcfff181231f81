"""API tokens: who sees and revokes them, and that none can grant more than it has."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.accounts import tokens
from control_domain.accounts.roles import SCOPES
from control_domain.tables.accounts import ApiToken
from pipeline_contracts.credentials import CredentialKind, is_well_formed
from pipeline_contracts.times import format_time
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import ALL_SCOPES, Response, Tenant, add_token

TOKENS = "/v1/tokens"
ADMINISTRATION = ["account:read", "account:write"]


async def create(api: Api, by: str = "owner", **fields: Any) -> Any:
    """Return a new token with its secret."""
    made = await api.call("POST", TOKENS, {"name": "CI", "scopes": ADMINISTRATION, **fields}, by=by)
    assert made.status == 201, made.body
    return made.data


async def call_with(api: Api, token: str, method: str, path: str, body: Any = None) -> Response:
    return await api.platform.call(method, path, body, token=token)


async def token_id(api: Api, tenant: Tenant, person: str) -> int:
    """Return the number of one of the person's tokens."""
    query = select(ApiToken.id).where(ApiToken.person_id == tenant.people[person].id).limit(1)
    async with api.platform.sessions() as session:
        return (await session.execute(query)).scalar_one()


async def test_create_use_revoke(api: Api) -> None:
    acme = api.platform.acme
    viewer = acme.people["viewer"]
    scopes = ["deploy:read", "account:write", "account:read", "deploy:read"]
    made = await create(api, "viewer", name=" CI ", scopes=scopes)
    secret = made.pop("api_token")
    assert is_well_formed(secret, CredentialKind.API_TOKEN)
    path = f"{TOKENS}/{made['id']}"
    assert made == {
        "id": made["id"],
        "name": "CI",
        "person": {"id": viewer.public_id, "name": viewer.name, "email": viewer.email},
        "scopes": ["account:read", "account:write", "deploy:read"],
        "state": "live",
        "is_current": False,
        "created_at": made["created_at"],
        "expires_at": None,
        "last_used_at": None,
        "revoked_at": None,
    }
    assert await api.read(path, by="viewer") == made
    used = (await call_with(api, secret, "GET", path)).data
    assert used == {**made, "is_current": True, "last_used_at": used["last_used_at"]}
    assert used["last_used_at"] is not None
    (entry,) = await api.read("/v1/audit?limit=1")
    assert (entry["action"], entry["subject"]) == ("token.create", f"token {made['id']}")
    assert entry["details"] == {
        "person": viewer.public_id,
        "name": "CI",
        "scopes": made["scopes"],
        "expires_at": None,
    }
    assert secret not in str(await api.platform.contents())

    # The token revokes itself.
    revoked = await call_with(api, secret, "DELETE", path)
    assert revoked.data == {**used, "state": "revoked", "revoked_at": revoked.data["revoked_at"]}
    assert (await call_with(api, secret, "GET", path)).problem == (401, "invalid-credential")
    before = await api.platform.contents()
    assert (await api.call("DELETE", path, by="viewer")).data["revoked_at"] == revoked.data["revoked_at"]
    assert await api.platform.contents() == before
    assert await api.audit(2) == [
        ("token.revoke", f"token {made['id']}"),
        ("token.create", f"token {made['id']}"),
    ]


async def test_who_sees_which_tokens(shared_api: Api) -> None:
    acme = shared_api.platform.acme
    everybody = await shared_api.read(f"{TOKENS}?limit=100", by="admin")
    assert {each["person"]["email"].partition("@")[2] for each in everybody} == {"acme.example"}
    assert len({each["person"]["id"] for each in everybody}) > 1
    owner, viewer = acme.people["owner"], acme.people["viewer"]
    own = await shared_api.read(f"{TOKENS}?limit=100", by="viewer")
    assert {each["person"]["id"] for each in own} == {viewer.public_id}
    assert [each["is_current"] for each in own].count(True) == 1
    for person in (viewer.public_id, str(viewer.id)):
        found = await shared_api.read(f"{TOKENS}?limit=100&person={person}", by="admin")
        assert [each["id"] for each in found] == [each["id"] for each in own]
    assert await shared_api.read(f"{TOKENS}?person={owner.public_id}", by="viewer") == []
    outsider = shared_api.platform.other.people["owner"].public_id
    assert await shared_api.read(f"{TOKENS}?person={outsider}") == []
    cursor = (await shared_api.call("GET", f"{TOKENS}?limit=2")).json()["next_cursor"]
    following = await shared_api.read(f"{TOKENS}?limit=2&cursor={cursor}")
    newest = await shared_api.read(f"{TOKENS}?limit=4")
    assert following == newest[2:]


async def test_tokens_of_others(api: Api) -> None:
    platform = api.platform
    foreign = await token_id(api, platform.other, "viewer")
    of_owner = await token_id(api, platform.acme, "owner")
    of_viewer = await token_id(api, platform.acme, "viewer")
    for method in ("GET", "DELETE"):
        for number in (foreign, 0, "x", 2**40):
            await api.expect((404, "not-found"), method, f"{TOKENS}/{number}")
        for number in (of_owner, of_viewer):
            await api.expect((404, "not-found"), method, f"{TOKENS}/{number}", by="maintainer")
    # Owners and admins may revoke any token of the account.
    for number in (of_owner, of_viewer):
        assert (await api.call("DELETE", f"{TOKENS}/{number}", by="admin")).data["state"] == "revoked"


async def test_nobody_creates_tokens_of_others(api: Api) -> None:
    viewer = api.platform.acme.people["viewer"].public_id
    made = await create(api, "admin", person=viewer, account="other")
    assert made["person"]["id"] == api.platform.acme.people["admin"].public_id


# Without account:write a token cannot create tokens.
@pytest.mark.parametrize("lacking", [scope for scope in SCOPES if scope != "account:write"])
async def test_no_token_gives_a_scope_that_it_lacks(shared_api: Api, lacking: str) -> None:
    """This holds for owners too: the scopes of the calling token are the limit, not the role."""
    for scopes in ([lacking], list(SCOPES)):
        refused = await shared_api.expect(
            (403, "missing-scope"),
            "POST",
            TOKENS,
            {"name": "more", "scopes": scopes},
            scopes=ALL_SCOPES - {lacking},
        )
        assert lacking in refused.json()["detail"]


async def test_a_chain_of_tokens_gains_nothing(api: Api) -> None:
    """A token of a token has at most what the first one has."""
    first = (await create(api, "owner", expires_in=3600))["api_token"]
    body = {"name": "second", "scopes": ["account:write"]}
    second = (await call_with(api, first, "POST", TOKENS, body)).data["api_token"]
    assert (await call_with(api, second, "GET", "/v1/account")).problem == (403, "missing-scope")
    for scope in set(SCOPES) - {"account:write"}:
        refused = await call_with(api, second, "POST", TOKENS, {"name": "third", "scopes": [scope]})
        assert refused.problem == (403, "missing-scope")
    reading = (await create(api, scopes=["account:read"]))["api_token"]
    refused = await call_with(api, reading, "POST", TOKENS, {"name": "x", "scopes": ["account:read"]})
    assert refused.problem == (403, "missing-scope")
    for method, path in (("DELETE", f"{TOKENS}/1"), ("PATCH", "/v1/account"), ("POST", "/v1/invitations")):
        assert (await call_with(api, reading, method, path)).problem == (403, "missing-scope")


async def test_no_token_outlives_the_one_that_creates_it(api: Api) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    until = now + timedelta(hours=1)
    short = await create(api, expires_at=until.isoformat())
    assert short["expires_at"] == format_time(until)

    async def ask(**fields: Any) -> Response:
        body = {"name": "x", "scopes": ["account:read"], **fields}
        return await call_with(api, short["api_token"], "POST", TOKENS, body)

    for field, value in (
        ("expires_at", (until + timedelta(seconds=1)).isoformat()),
        ("expires_at", "9999-12-31T23:59:59-23:59"),
        ("expires_in", 3601 + 60),
    ):
        refused = await ask(**{field: value})
        assert (refused.problem, refused.fields) == ((422, "validation-failed"), [field])
    for fields in ({}, {"expires_at": until.isoformat()}, {"expires_at": None, "expires_in": None}):
        assert (await ask(**fields)).data["expires_at"] == format_time(until)
    sooner = (await ask(expires_in=60)).data["expires_at"]
    assert format_time(now) < sooner < format_time(until)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["name", "scopes"]),
        ({"name": "\t", "expires_at": "2020-01-01T00:00:00Z"}, ["name", "expires_at"]),
        ({"name": "\ud800"}, [""]),
        ({"scopes": []}, ["scopes"]),
        ({"scopes": ["deploy"]}, ["scopes[0]"]),
        ({"scopes": "account:read"}, ["scopes"]),
        ({"expires_in": 59}, ["expires_in"]),
        ({"expires_in": 10**12}, ["expires_in"]),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, ["expires_at"]),
        ({"expires_at": "2099-01-01T00:00:00"}, ["expires_at"]),
        ({"expires_at": "2030-01-01T00:00:00Z", "expires_in": 60}, ["expires_in"]),
    ],
    ids=str,
)
async def test_invalid_tokens(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    full = {"name": "x", "scopes": ["account:read"], **body} if body else body
    refused = await shared_api.expect((422, "validation-failed"), "POST", TOKENS, full)
    assert refused.fields == fields


async def test_an_expired_token_is_listed_as_such(api: Api) -> None:
    platform = api.platform
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with platform.sessions() as session, session.begin():
        await add_token(session, platform.acme, platform.acme.people["viewer"], ALL_SCOPES, expires_at=past)
    (newest, *_) = await api.read(f"{TOKENS}?limit=1")
    assert newest["state"] == "expired"


async def test_number_of_live_tokens(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    present = len(await api.read(f"{TOKENS}?limit=100", by="viewer"))
    monkeypatch.setattr(tokens, "MAX_LIVE_TOKENS", present + 1)
    made = await create(api, "viewer")
    await api.expect((409, "conflict"), "POST", TOKENS, {"name": "x", "scopes": ADMINISTRATION}, by="viewer")
    await api.call("DELETE", f"{TOKENS}/{made['id']}", by="viewer")
    await create(api, "viewer")


async def test_only_the_token_that_got_a_secret_gets_it_again(api: Api) -> None:
    """Idempotency keys of a person are shared by their tokens, but answers with secrets are not."""
    headers, body = {"Idempotency-Key": "one"}, {"name": "x", "scopes": list(SCOPES)}
    first = await api.call("POST", TOKENS, body, headers=headers)
    again = await api.call("POST", TOKENS, body, headers=headers)
    assert (again.data, again.headers["Idempotent-Replayed"]) == (first.data, "true")
    narrow = (await create(api))["api_token"]
    refused = await api.platform.call("POST", TOKENS, body, token=narrow, headers=headers)
    assert refused.problem == (403, "missing-scope")
    assert first.data["api_token"] not in str(await api.platform.contents())
