"""Invitations: who may invite whom, and that a secret works once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from control_api.app import build_control_app
from control_api.limits.request_limits import RequestLimiter, RequestLimits
from control_domain.accounts.operations import create_person
from control_domain.accounts.roles import SCOPES
from control_domain.invitations import manage
from control_domain.tables.accounts import ApiToken
from control_domain.tables.invitations import Invitation
from pipeline_contracts.credentials import CredentialKind, is_well_formed, make_credential
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import format_time
from tests.control_api.management.conftest import Api, check_response
from tests.support.deploy_platform import ALL_SCOPES, RECEIPT_KEY, Response
from tests.support.serve_control import VARIABLE_KEYS, serving_control

INVITATIONS = "/v1/invitations"
ACCEPT = f"{INVITATIONS}/accept"
EVE = "eve@new.example"


async def invite(api: Api, by: str = "owner", **fields: Any) -> Any:
    """Return a new invitation with its secret."""
    made = await api.call("POST", INVITATIONS, {"email": EVE, **fields}, by=by)
    assert made.status == 201, made.body
    return made.data


async def accept(api: Api, secret: str, name: str | None = "Eve") -> Response:
    """Accept an invitation without an API token."""
    body = {"invitation": secret, "name": name}
    response = await api.platform.call("POST", ACCEPT, body, headers={"Authorization": None})
    check_response("POST", ACCEPT, response)
    return response


async def expect_unusable(api: Api, secret: str, name: str | None = "Eve") -> bytes:
    """Expect that the secret cannot be used to join. Return the refusal, without the request's own ID."""
    before = await api.platform.contents()
    refused = await accept(api, secret, name)
    assert refused.problem == (404, "not-found")
    assert await api.platform.contents() == before
    return refused.body


async def count(api: Api, table: Any) -> int:
    async with api.platform.sessions() as session:
        return (await session.execute(select(func.count()).select_from(table))).scalar_one()


async def test_invite_and_accept(api: Api) -> None:
    acme = api.platform.acme
    shop, admin = acme.projects["shop"], acme.people["admin"]
    invited = await invite(
        api,
        "admin",
        email=" Eve@New.Example ",
        project_roles=[{"project": str(shop.id), "role": "deployer"}],
        expires_in=3600,
    )
    secret = invited.pop("secret")
    assert is_well_formed(secret, CredentialKind.INVITATION)
    expires_at = datetime.fromisoformat(invited["created_at"]) + timedelta(hours=1)
    assert invited == {
        "id": invited["id"],
        "email": EVE,
        "role": "member",
        "project_roles": [
            {"project": {"id": shop.public_id, "name": "Shop", "slug": "shop"}, "role": "deployer"}
        ],
        "state": "pending",
        "invited_by": {"id": admin.public_id, "name": admin.name, "email": admin.email},
        "created_at": invited["created_at"],
        "expires_at": format_time(expires_at),
        "accepted_at": None,
        "revoked_at": None,
    }
    assert await api.read(INVITATIONS) == [invited]
    assert secret not in str(await api.platform.contents())

    joined = await accept(api, secret, " Eve ")
    assert joined.status == 201
    token = joined.data.pop("api_token")
    eve = joined.data["person"]
    assert joined.data == {
        "person": {"id": eve["id"], "name": "Eve", "email": EVE},
        "account": {"id": acme.account.public_id, "name": "Acme", "slug": "acme"},
        "role": "member",
        "api_token": token,
    }
    (listed,) = await api.read(INVITATIONS)
    assert listed == {**invited, "state": "accepted", "accepted_at": listed["accepted_at"]}
    assert await api.read(f"/v1/people/{eve['id']}") == {**eve, "role": "member"}
    me = await api.platform.call("GET", "/v1/me", token=token)
    assert me.data["person"] == eve
    (own,) = (await api.platform.call("GET", "/v1/tokens", token=token)).data
    assert (own["scopes"], own["expires_at"]) == (list(SCOPES), None)
    (project,) = (await api.platform.call("GET", "/v1/projects", token=token)).data
    assert project["id"] == shop.public_id

    entries = await api.read("/v1/audit?limit=4")
    assert [(each["action"], each["subject"], each["details"]) for each in entries] == [
        (
            "token.create",
            f"token {own['id']}",
            {"person": eve["id"], "name": own["name"], "scopes": list(SCOPES), "expires_at": None},
        ),
        ("project.grant", f"project {shop.public_id}", {"person": eve["id"], "from": None, "to": "deployer"}),
        ("person.add", f"person {eve['id']}", {"role": "member", "invitation": invited["id"]}),
        (
            "invitation.create",
            f"invitation {invited['id']}",
            {
                "email": EVE,
                "role": "member",
                "project_roles": {shop.public_id: "deployer"},
                "expires_at": invited["expires_at"],
            },
        ),
    ]
    assert [each["person"]["id"] for each in entries] == [eve["id"]] * 3 + [admin.public_id]
    assert [each["token_id"] is None for each in entries] == [True, True, True, False]


async def test_an_invitation_lasts_a_week(api: Api) -> None:
    invited = await invite(api)
    created, expires = [datetime.fromisoformat(invited[name]) for name in ("created_at", "expires_at")]
    assert expires - created == timedelta(days=7)
    until = format_time(datetime.now(UTC).replace(microsecond=0) + timedelta(days=29))
    assert (await invite(api, email="zoe@eve.example", expires_at=until))["expires_at"] == until


@pytest.mark.parametrize(
    ("by", "role", "problem"),
    [
        ("owner", "owner", None),
        ("owner", "admin", None),
        ("admin", "admin", None),
        ("admin", "member", None),
        ("admin", "owner", (403, "not-allowed")),
        ("maintainer", "member", (403, "not-allowed")),
    ],
)
async def test_who_invites_whom(api: Api, by: str, role: str, problem: tuple[int, str] | None) -> None:
    body = {"email": EVE, "role": role}
    if problem is not None:
        await api.expect(problem, "POST", INVITATIONS, body, by=by)
        return
    joined = (await accept(api, (await invite(api, by, role=role))["secret"])).data
    assert joined["role"] == role == (await api.read(f"/v1/people/{joined['person']['id']}"))["role"]


async def test_only_a_token_with_all_scopes_invites(api: Api) -> None:
    """Otherwise a token with `account:write` alone could invite an address of its holder, who signs in: a session has
    all scopes."""
    shop = api.platform.acme.projects["shop"].public_id
    for scope, by, roles in (
        ("projects:write", "owner", [{"project": shop, "role": "viewer"}]),
        ("telemetry:read", "admin", []),
    ):
        body = {"email": EVE, "project_roles": roles}
        refused = await api.expect(
            (403, "missing-scope"), "POST", INVITATIONS, body, by=by, scopes=ALL_SCOPES - {scope}
        )
        assert scope in refused.json()["detail"]
    # An invitation that an earlier version created with such a token adds no member.
    narrow = await invite(api)
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Invitation).values(scopes="account:read account:write"))
    assert (await accept(api, narrow["secret"])).problem == (409, "conflict")


async def test_unusable_secrets_get_the_same_response(api: Api) -> None:
    used, revoked, expired = [
        (await invite(api, email=f"{name}@new.example")) for name in ("used", "revoked", "expired")
    ]
    assert (await accept(api, used["secret"])).status == 201
    assert (await api.call("DELETE", f"{INVITATIONS}/{revoked['id']}")).status == 200
    async with api.platform.sessions() as session, session.begin():
        of_expired = update(Invitation).where(Invitation.id == expired["id"])
        await session.execute(of_expired.values(expires_at=datetime.now(UTC)))
    secrets = [each["secret"] for each in (used, revoked, expired)]
    secrets += [make_credential(kind) for kind in (CredentialKind.INVITATION, CredentialKind.API_TOKEN)]
    secrets += ["", "x" * 200, "phr_inv_ö", api.platform.acme.token()]
    assert len({await expect_unusable(api, secret) for secret in secrets}) == 1
    # The same holds without a name, because the secret is checked first.
    assert await expect_unusable(api, used["secret"], None)


@pytest.mark.both_databases
async def test_concurrent_uses_of_a_secret(api: Api) -> None:
    invited = await invite(api)
    before = await count(api, ApiToken)
    answers = await asyncio.gather(*[accept(api, invited["secret"], f"Eve {n}") for n in range(6)])
    assert sorted(each.status for each in answers) == [201, 404, 404, 404, 404, 404]
    assert await count(api, ApiToken) == before + 1
    (eve,) = await api.read(f"/v1/people?email={EVE}")
    (joined,) = [each.data for each in answers if each.status == 201]
    assert joined["person"]["name"] == eve["name"]


@pytest.mark.both_databases
async def test_concurrent_use_and_revocation(api: Api) -> None:
    for number in range(5):
        invited = await invite(api, email=f"{number}@new.example")
        joined, revoked = await asyncio.gather(
            accept(api, invited["secret"]), api.call("DELETE", f"{INVITATIONS}/{invited['id']}")
        )
        assert (joined.status, revoked.status) in [(201, 409), (404, 200)]


async def test_a_person_of_another_account(api: Api) -> None:
    """The person keeps the name, and gets access to this account only."""
    other = api.platform.other
    person = other.people["owner"]
    invited = await invite(api, email=person.email.upper())
    joined = (await accept(api, invited["secret"], "Mallory")).data
    assert joined["person"] == {"id": person.public_id, "name": person.name, "email": person.email}
    account = await api.platform.call("GET", "/v1/account", token=joined["api_token"])
    assert account.data["slug"] == "acme"
    shop = other.projects["shop"].public_id
    foreign = await api.platform.call("GET", f"/v1/projects/{shop}", token=joined["api_token"])
    assert foreign.problem == (404, "not-found")
    assert (await api.platform.call("GET", f"/v1/projects/{shop}", token=other.token())).status == 200


async def test_a_known_person_needs_no_name(api: Api) -> None:
    invited = await invite(api, email=api.platform.other.people["viewer"].email)
    assert (await accept(api, invited["secret"], None)).status == 201


async def test_a_new_person_needs_a_name(api: Api) -> None:
    invited = await invite(api)
    before = await api.platform.contents()
    for name in (None, "", "\t", "a" * 101):
        refused = await accept(api, invited["secret"], name)
        assert (refused.problem, refused.fields) == ((422, "validation-failed"), ["name"])
    assert await api.platform.contents() == before
    assert (await accept(api, invited["secret"])).status == 201


@pytest.mark.both_databases
async def test_a_person_joins_two_accounts_at_once(api: Api) -> None:
    platform = api.platform
    for number in range(3):
        email = f"{number}@new.example"
        here = await invite(api, email=email)
        there = await platform.call("POST", INVITATIONS, {"email": email}, token=platform.other.token())
        joined = await asyncio.gather(
            accept(api, here["secret"], "A"), accept(api, there.data["secret"], "B")
        )
        assert [each.status for each in joined] == [201, 201]
        assert joined[0].data["person"] == joined[1].data["person"]


async def test_members_are_not_invited(api: Api) -> None:
    """An invitation to a member would give its holder a token in the member's name."""
    await api.expect((409, "conflict"), "POST", INVITATIONS, {"email": "Viewer@acme.example"})
    first = await invite(api)
    again = await api.expect((409, "conflict"), "POST", INVITATIONS, {"email": EVE})
    assert f"invitation {first['id']}" in again.json()["detail"]
    await api.call("DELETE", f"{INVITATIONS}/{first['id']}")
    second = await invite(api)
    # The person joins in another way meanwhile.
    platform = api.platform
    async with platform.sessions() as session, session.begin():
        await create_person(session, platform.acme.account, "Eve", EVE, "member", datetime.now(UTC))
    assert await expect_unusable(api, second["secret"])
    # The invitation does not restore a removed person either.
    (eve,) = await api.read(f"/v1/people?email={EVE}")
    assert (await api.call("DELETE", f"/v1/people/{eve['id']}")).status == 200
    assert await expect_unusable(api, second["secret"])


async def test_former_members_may_come_back(api: Api) -> None:
    platform = api.platform
    viewer = platform.acme.people["viewer"]
    assert (await api.call("DELETE", f"/v1/people/{viewer.public_id}")).status == 200
    joined = (await accept(api, (await invite(api, email=viewer.email))["secret"])).data
    assert joined["person"]["id"] == viewer.public_id
    # Their former roles and tokens stay removed.
    assert (await api.call("GET", "/v1/account", by="viewer")).problem == (401, "invalid-credential")
    shop = f"/v1/projects/{platform.acme.projects['shop'].public_id}"
    refused = await platform.call("GET", shop, token=joined["api_token"])
    assert refused.problem == (403, "deploy-not-allowed")


async def test_a_project_is_removed_meanwhile(api: Api) -> None:
    made = (await api.call("POST", "/v1/projects", {"name": "Wiki"})).data
    shop = api.platform.acme.projects["shop"].public_id
    roles = [{"project": made["id"], "role": "maintainer"}, {"project": shop, "role": "viewer"}]
    invited = await invite(api, project_roles=roles)
    assert (await api.call("DELETE", f"/v1/projects/{made['id']}")).status == 200
    (listed,) = await api.read(INVITATIONS)
    assert [each["project"]["id"] for each in listed["project_roles"]] == [shop]
    token = (await accept(api, invited["secret"])).data["api_token"]
    projects = (await api.platform.call("GET", "/v1/projects", token=token)).data
    assert [each["id"] for each in projects] == [shop]


async def test_revoke(api: Api) -> None:
    invited = await invite(api)
    path = f"{INVITATIONS}/{invited['id']}"
    revoked = (await api.call("DELETE", path, by="admin")).data
    del invited["secret"]
    assert revoked == {**invited, "state": "revoked", "revoked_at": revoked["revoked_at"]}
    before = await api.platform.contents()
    assert (await api.call("DELETE", path)).data == revoked
    assert await api.platform.contents() == before
    assert await api.audit(1) == [("invitation.revoke", f"invitation {invited['id']}")]

    accepted = await invite(api)
    assert (await accept(api, accepted["secret"])).status == 201
    await api.expect((409, "conflict"), "DELETE", f"{INVITATIONS}/{accepted['id']}")
    other = api.platform.other.token()
    foreign = await api.platform.call("POST", INVITATIONS, {"email": EVE}, token=other)
    for number in (foreign.data["id"], 0, "x"):
        await api.expect((404, "not-found"), "DELETE", f"{INVITATIONS}/{number}")


async def test_list(api: Api) -> None:
    made = [await invite(api, email=f"{number}@new.example") for number in range(4)]
    await api.call("DELETE", f"{INVITATIONS}/{made[1]['id']}")
    await accept(api, made[2]["secret"])
    async with api.platform.sessions() as session, session.begin():
        of_last = update(Invitation).where(Invitation.id == made[3]["id"])
        await session.execute(of_last.values(expires_at=datetime.now(UTC)))
    states = ["expired", "accepted", "revoked", "pending"]
    assert [each["state"] for each in await api.read_all(INVITATIONS, 3)] == states
    for state in states:
        (listed,) = await api.read(f"{INVITATIONS}?state={state}")
        assert listed["state"] == state
    other = await api.platform.call("GET", INVITATIONS, token=api.platform.other.token())
    assert other.data == []


async def test_number_of_pending_invitations(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manage, "MAX_PENDING", 1)
    first = await invite(api)
    await api.expect((409, "conflict"), "POST", INVITATIONS, {"email": "x@new.example"})
    await api.call("DELETE", f"{INVITATIONS}/{first['id']}")
    await invite(api)


async def test_a_repeated_creation(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await api.call("POST", INVITATIONS, {"email": EVE}, headers=headers)
    again = await api.call("POST", INVITATIONS, {"email": EVE}, headers=headers)
    assert first.data == again.data
    assert first.data["secret"] not in str(await api.platform.contents())


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["email"]),
        ({"email": "eve"}, ["email"]),
        ({"email": f"{'e' * 250}@x.example"}, ["email"]),
        ({"email": "e\0@x.example"}, ["email"]),
        ({"email": "\ud800@x.example"}, [""]),
        ({"email": EVE, "role": "king", "expires_in": 59}, ["role", "expires_in"]),
        ({"email": EVE, "expires_in": 31 * 86_400}, ["expires_in"]),
        ({"email": EVE, "expires_at": "2020-01-01T00:00:00Z"}, ["expires_at"]),
        ({"email": EVE, "expires_at": "9999-12-31T23:59:59Z"}, ["expires_at"]),
        ({"email": EVE, "expires_at": "9999-12-31T23:59:59Z", "expires_in": 60}, ["expires_in"]),
        (
            {"email": EVE, "project_roles": [{"project": "{shop}", "role": "owner"}]},
            ["project_roles[0].role"],
        ),
        (
            {
                "email": "eve",
                "project_roles": [
                    {"project": "{shop}", "role": "viewer"},
                    {"project": "{other}", "role": "viewer"},
                    {"project": "{shop}", "role": "maintainer"},
                ],
            },
            ["email", "project_roles[1].project", "project_roles[2].project"],
        ),
    ],
    ids=str,
)
async def test_invalid_invitations(shared_api: Api, body: dict[str, Any], fields: list[str]) -> None:
    platform = shared_api.platform
    known = {tenant: getattr(platform, tenant).projects["shop"].public_id for tenant in ("acme", "other")}
    roles = [
        {**each, "project": known["other" if each["project"] == "{other}" else "acme"]}
        for each in body.get("project_roles", ())
    ]
    sent = {**body, "project_roles": roles} if roles else body
    refused = await shared_api.expect((422, "validation-failed"), "POST", INVITATIONS, sent)
    assert refused.fields == fields


async def test_attempts_count_towards_the_address(api: Api) -> None:
    """This includes attempts with an invented token: guesses never get a separate limit."""
    limiter = RequestLimiter(RequestLimits(RateLimit(0.001, 1000), RateLimit(0.001, 2)), lambda: 0.0)
    platform = api.platform
    store: Any = None
    app = build_control_app(platform.sessions, store, RECEIPT_KEY, VARIABLE_KEYS, request_limiter=limiter)
    async with serving_control(app) as url:
        statuses = []
        for _ in range(3):
            guess = {"invitation": make_credential(CredentialKind.INVITATION)}
            headers = {"Authorization": f"Bearer {make_credential(CredentialKind.API_TOKEN)}"}
            async with platform.http.post(f"{url}/api{ACCEPT}", json=guess, headers=headers) as response:
                statuses.append(response.status)
    assert statuses == [404, 404, 429]
