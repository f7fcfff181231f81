"""Sign-in with a password, one-time links and invitations, and the session cookie."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from control_api import authentication
from control_api.management import sign_in as sign_in_routes
from control_api.management.storage import StorageAccess
from control_domain.database.errors import DatabaseUnavailable
from control_domain.sign_in import sessions as session_rules
from control_domain.sign_in.links import create_link
from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.sessions import SignInOrigin, revoke_sessions, start_session
from control_domain.storage import disk_reserve
from control_domain.tables.accounts import ApiToken, Membership
from control_domain.tables.audit import AuditEntry
from control_domain.tables.invitations import Invitation
from control_domain.tables.sign_in import OidcIdentity, SignInLink, SignInSession
from pipeline_contracts.credentials import CredentialKind, is_well_formed, make_credential
from pipeline_contracts.errors import NotFound
from tests.control_api.management.conftest import Api, check_response
from tests.support.browsers import (
    OTHER_PASSWORD,
    PASSWORD,
    SAME_ORIGIN,
    Browser,
    add_password,
    open_browser,
)
from tests.support.deploy_platform import ALL_SCOPES, PEOPLE, SESSION_COOKIE, Response, add_token

SESSION = "/v1/session"
COOKIE = SESSION_COOKIE


async def add_link(api: Api, person: str = "owner", by: str | None = None, **values: Any) -> str:
    """Return the secret of a new link for a person of acme, made by an operator or by this person."""
    people = api.platform.acme.people
    async with api.platform.sessions() as session, session.begin():
        link = await create_link(
            session, people[person], None if by is None else people[by].id, datetime.now(UTC)
        )
        if values:
            await session.execute(update(SignInLink).values(**values))
    return link.secret


async def call(browser: Browser, method: str, path: str, body: Any = None, **options: Any) -> Response:
    """Call the operation, and check the response against its schema."""
    response = await browser.call(method, path, body, **options)
    check_response(method, path, response)
    return response


async def test_sign_in_and_out(api: Api) -> None:
    acme, owner = api.platform.acme.account, api.platform.acme.people["owner"]
    browser = Browser(api.platform)
    options = await call(browser, "GET", f"{SESSION}/options")
    assert options.data == {"oidc_name": None, "has_passwords": False}
    await add_password(api.platform, owner)
    assert (await call(browser, "GET", f"{SESSION}/options")).data == {
        "oidc_name": None,
        "has_passwords": True,
    }
    assert (await call(browser, "GET", SESSION)).problem == (401, "invalid-credential")

    signed_in = await call(browser, "POST", SESSION, {"email": " OWNER@acme.example ", "password": PASSWORD})
    assert signed_in.status == 201
    cookie = signed_in.headers["Set-Cookie"]
    assert cookie == (
        f"{COOKIE}={browser.cookies[COOKIE]}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"
    )
    assert signed_in.headers["Cache-Control"] == "no-store"
    assert is_well_formed(browser.cookies[COOKIE], CredentialKind.SESSION)
    assert browser.cookies[COOKIE] not in str(await api.platform.contents())
    summary = {"id": acme.public_id, "name": "Acme", "slug": "acme"}
    created = datetime.fromisoformat(signed_in.data["created_at"])
    assert signed_in.data == {
        "person": {"id": owner.public_id, "name": owner.name, "email": owner.email},
        "account": summary,
        "role": "owner",
        "project_roles": {},
        "accounts": [{**summary, "role": "owner"}],
        "scopes": signed_in.data["scopes"],
        "has_password": True,
        "second_factor": False,
        "created_at": signed_in.data["created_at"],
        "expires_at": signed_in.data["expires_at"],
    }
    assert set(signed_in.data["scopes"]) == ALL_SCOPES
    assert datetime.fromisoformat(signed_in.data["expires_at"]) == created + timedelta(days=30)
    assert (await call(browser, "GET", SESSION)).data == signed_in.data
    assert (await call(browser, "GET", "/v1/me")).data["person"]["id"] == owner.public_id

    thief = browser.copy()
    out = await call(browser, "DELETE", SESSION)
    assert (out.status, out.data, browser.cookies) == (200, {"ended": 1}, {})
    assert (await call(thief, "GET", SESSION)).problem == (401, "invalid-credential")
    actions = [action for action, _ in await api.audit(2)]
    assert actions == ["session.revoke", "session.create"]


async def test_several_session_cookies_are_no_session(api: Api) -> None:
    """Other applications of the domain can set cookies of the same name, even ones with a valid session."""
    browser, other = await open_browser(api.platform), await open_browser(api.platform, "viewer")
    for tossed in ("evil", other.cookies[COOKIE]):
        sent = {**SAME_ORIGIN, "Cookie": f"{COOKIE}={browser.cookies[COOKIE]}; {COOKIE}={tossed}"}
        for path in (SESSION, "/v1/me"):
            refused = await Browser(api.platform).call("GET", path, headers=sent)
            assert refused.problem == (401, "invalid-credential") and b"several" in refused.body
            removed = refused.headers.getall("Set-Cookie")
            assert f"{COOKIE}=; Path=/api; Max-Age=0" in removed
            # The browser keeps the cookie that this host has set.
            assert not [cookie for cookie in removed if cookie.startswith(f"{COOKIE}=; Path=/; Max-Age")]
        # After signing out nobody can continue the session, even if it is not known which one it was.
        out = await Browser(api.platform).call("DELETE", SESSION, headers=sent)
        assert out.problem == (401, "invalid-credential")
        removed = out.headers.getall("Set-Cookie")
        assert f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" in removed
    assert (await browser.call("GET", SESSION)).status == 200


async def test_signing_out_always_removes_the_cookie(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds while the database is unavailable, and when the secret would be rotated."""

    async def fail(*_: Any, **__: Any) -> Any:
        raise DatabaseUnavailable("away")

    browser = await open_browser(api.platform)
    async with api.platform.sessions() as session, session.begin():
        await session.execute(
            update(SignInSession).values(rotated_at=datetime.now(UTC) - timedelta(hours=25))
        )
    elsewhere = await browser.copy().call("DELETE", SESSION, headers={"Sec-Fetch-Site": "same-site"})
    assert elsewhere.status == 403 and "Set-Cookie" not in elsewhere.headers
    for module, function in ((sign_in_routes, "end_session"), (authentication, "find_session_caller")):
        sent = {**SAME_ORIGIN, "Cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}
        with monkeypatch.context() as away:
            away.setattr(module, function, fail)
            async with api.platform.http.delete(f"{api.platform.url}/api{SESSION}", headers=sent) as refused:
                assert refused.status == 503, function
        [cookie] = refused.headers.getall("Set-Cookie")
        assert cookie.startswith(f"{COOKIE}=; Path=/; Max-Age=0;"), function
    assert (await call(browser, "DELETE", SESSION)).data == {"ended": 1}


async def test_a_full_disk_gets_space_before_a_sign_in(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/faults/test_full_disk.py` fills a disk."""
    await add_password(api.platform, api.platform.acme.people["owner"])
    monkeypatch.setattr(api.platform.app.state, "storage_access", StorageAccess(data_folder=tmp_path))
    monkeypatch.setattr(disk_reserve, "is_disk_full", lambda folder: folder == tmp_path)
    reserve = tmp_path / "disk-reserve"
    for method in ("password", "link"):
        reserve.touch()
        body = {"email": "owner@acme.example", "password": PASSWORD}
        path = SESSION
        if method == "link":
            path, body = f"{SESSION}/link", {"link": await add_link(api), "password": OTHER_PASSWORD}
        assert (await call(Browser(api.platform), "POST", path, body)).status == 201
        assert not reserve.exists(), method


async def test_refusals_are_alike(api: Api) -> None:
    """Responses do not distinguish an unknown address, a person without a password, and a wrong password."""
    await add_password(api.platform, api.platform.acme.people["owner"])
    bodies = set()
    for email in (
        "owner@acme.example",
        "admin@acme.example",
        "nobody@acme.example",
        "x" * 254,
        "no address",
    ):
        refused = await call(Browser(api.platform), "POST", SESSION, {"email": email, "password": "wrong"})
        assert refused.problem == (401, "sign-in-refused"), email
        assert "Set-Cookie" not in refused.headers
        bodies.add(refused.body)
    assert len(bodies) == 1


async def test_password_guesses_are_limited(api: Api) -> None:
    owner = api.platform.acme.people["owner"]
    await add_password(api.platform, owner)
    guesser = Browser(api.platform)
    results = [(await guesser.sign_in(owner.email, "wrong password")).status for _ in range(6)]
    assert results == [401] * 5 + [429]
    refused = await guesser.sign_in(owner.email)
    assert refused.problem == (429, "too-many-requests") and 1 <= int(refused.headers["Retry-After"]) <= 30
    check_response("POST", SESSION, refused)
    # Other people are not affected, and the person can still use an existing session or a link.
    await add_password(api.platform, api.platform.acme.people["admin"])
    assert (await guesser.sign_in("admin@acme.example")).status == 201
    link = await add_link(api)
    used = await call(
        Browser(api.platform), "POST", f"{SESSION}/link", {"link": link, "password": OTHER_PASSWORD}
    )
    assert used.status == 201
    # A success is not counted.
    admin = Browser(api.platform)
    assert {(await admin.sign_in("admin@acme.example")).status for _ in range(8)} == {201}


async def test_signing_in_again_ends_the_former_session_of_the_browser(api: Api) -> None:
    browser = await open_browser(api.platform)
    former = browser.copy()
    assert (await browser.sign_in("owner@acme.example", "wrong password")).status == 401
    assert (await former.call("GET", SESSION)).status == 200
    await browser.sign_in("owner@acme.example")
    assert (await former.call("GET", SESSION)).status == 401
    assert (await browser.call("GET", SESSION)).status == 200
    assert [action for action, _ in await api.audit(2)] == ["session.revoke", "session.create"]


async def test_a_first_sign_in_has_nothing_to_revoke(api: Api) -> None:
    """People who sign in only by a provider have no password, but sessions and tokens that may be stolen."""
    acme, viewer = api.platform.acme, api.platform.acme.people["viewer"]
    now = datetime.now(UTC)
    browser, made = Browser(api.platform), acme.account.created_at
    link = {"link": await add_link(api, "viewer")}
    origin = SignInOrigin("192.0.2.1", "192.0.2.1/32", "")

    async def is_first() -> bool:
        owner = await call(browser, "POST", f"{SESSION}/link/owner", link)
        assert owner.data["has_password"] is False
        return bool(owner.data["first_sign_in"])

    async with api.platform.sessions() as session, session.begin():
        await session.execute(delete(ApiToken).where(ApiToken.person_id == viewer.id))
    for values, expected in (
        ({"created_at": made}, True),
        ({"revoked_at": now}, True),
        ({"expires_at": now}, True),
        ({}, False),
        ({"expires_at": now + timedelta(hours=1)}, False),
    ):
        async with api.platform.sessions() as session, session.begin():
            await add_token(session, acme, viewer, ALL_SCOPES, **values)
        assert await is_first() is expected, values
        async with api.platform.sessions() as session, session.begin():
            await session.execute(delete(ApiToken).where(ApiToken.person_id == viewer.id))
    async with api.platform.sessions() as session, session.begin():
        await start_session(session, viewer, acme.account.id, "oidc", origin, now)
    assert not await is_first()
    async with api.platform.sessions() as session, session.begin():
        await revoke_sessions(session, viewer.id, now)
    assert await is_first()
    async with api.platform.sessions() as session, session.begin():
        session.add(OidcIdentity(person_id=viewer.id, issuer="https://id", subject="1", created_at=now))
    assert not await is_first()


async def test_a_link_sets_the_password_once(api: Api) -> None:
    owner = api.platform.acme.people["owner"]
    elsewhere = await open_browser(api.platform)
    link = await add_link(api)
    named = await call(elsewhere, "POST", f"{SESSION}/link/owner", {"link": link})
    assert (named.status, named.data["person"]["id"]) == (200, api.platform.acme.people["owner"].public_id)
    # The page offers the sign-in with the present password only to the owner. Both have tokens to revoke.
    assert (named.data["has_password"], named.data["first_sign_in"]) == (True, False)
    first = await call(elsewhere, "POST", f"{SESSION}/link/owner", {"link": await add_link(api, "viewer")})
    assert (first.data["has_password"], first.data["first_sign_in"]) == (False, False)
    body = {"link": link, "password": "short"}
    browser = Browser(api.platform)
    weak = await call(browser, "POST", f"{SESSION}/link", body)
    assert (weak.problem, weak.fields) == ((422, "validation-failed"), ["password"])
    both = await asyncio.gather(
        *(
            call(Browser(api.platform), "POST", f"{SESSION}/link", {"link": link, "password": password})
            for password in (OTHER_PASSWORD, OTHER_PASSWORD)
        )
    )
    assert sorted(each.status for each in both) == [201, 404]
    assert (await elsewhere.call("GET", SESSION)).status == 401
    assert (await browser.sign_in(owner.email)).status == 401
    assert (await browser.sign_in(owner.email, OTHER_PASSWORD)).status == 201
    for secret in (link, make_credential(CredentialKind.SIGN_IN_LINK), "x", browser.cookies[COOKIE]):
        named = await call(browser, "POST", f"{SESSION}/link/owner", {"link": secret})
        assert named.problem == (404, "not-found")
        used = await call(browser, "POST", f"{SESSION}/link", {"link": secret, "password": OTHER_PASSWORD})
        assert used.problem == (404, "not-found")
    expired = await add_link(api, expires_at=datetime.now(UTC))
    late = await call(browser, "POST", f"{SESSION}/link", {"link": expired, "password": OTHER_PASSWORD})
    assert late.problem == (404, "not-found")
    # API tokens outlive the password unless they are revoked with it.
    assert (await api.call("GET", "/v1/me")).status == 200
    body = {"link": await add_link(api), "password": PASSWORD, "revoke_tokens": True}
    assert (await call(browser, "POST", f"{SESSION}/link", body)).status == 201
    assert (await api.call("GET", "/v1/me")).problem == (401, "invalid-credential")


async def test_rotation_among_tabs(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await open_browser(api.platform)
    secret = browser.cookies[COOKIE]

    async def age(**values: Any) -> None:
        async with api.platform.sessions() as session, session.begin():
            await session.execute(update(SignInSession).values(**values))

    await age(rotated_at=datetime.now(UTC) - timedelta(hours=25))
    tabs = [browser.copy() for _ in range(4)]
    responses = await asyncio.gather(*(tab.call("GET", SESSION) for tab in tabs))
    assert [each.status for each in responses] == [200] * 4
    fresh = {tab.cookies[COOKIE] for tab in tabs} - {secret}
    assert len(fresh) == 1
    browser.cookies[COOKIE] = fresh.pop()
    # Requests of other tabs are in flight.
    old = Browser(api.platform, {COOKIE: secret})
    assert (await old.call("GET", SESSION)).status == 200 and old.cookies[COOKIE] == secret
    # The response with the new cookie is slow: the secret in it must still work when it arrives.
    await age(rotated_at=datetime.now(UTC) - timedelta(minutes=2))
    assert (await old.call("GET", SESSION)).status == 200 and old.cookies[COOKIE] == secret
    # The response was lost: after ten minutes the old secret is rotated again.
    await age(rotated_at=datetime.now(UTC) - timedelta(minutes=11))
    assert (await old.call("GET", SESSION)).status == 200 and old.cookies[COOKIE] != secret
    assert (await browser.call("GET", SESSION)).status == 401
    # The old secret becomes invalid a minute after the new one is used.
    await age(rotated_at=datetime.now(UTC) - timedelta(minutes=2))
    assert (await old.call("GET", SESSION)).status == 200
    assert (await Browser(api.platform, {COOKIE: secret}).call("GET", SESSION)).status == 401


async def test_sessions_end(api: Api) -> None:
    """Sessions end after their maximum time, without use, and with the membership."""
    now = datetime.now(UTC)
    for values in (
        {"expires_at": now},
        {"last_used_at": now - session_rules.IDLE_LIFETIME},
        {"revoked_at": now},
    ):
        browser = await open_browser(api.platform)
        async with api.platform.sessions() as session, session.begin():
            await session.execute(update(SignInSession).values(**values))
        assert (await browser.call("GET", "/v1/me")).problem == (401, "invalid-credential"), values
    browser = await open_browser(api.platform, "viewer")
    viewer = api.platform.acme.people["viewer"]
    assert (await api.call("DELETE", f"/v1/people/{viewer.public_id}")).status == 200
    assert (await browser.call("GET", "/v1/me")).problem == (401, "invalid-credential")
    alone = await browser.sign_in(viewer.email)
    assert alone.problem == (403, "not-allowed") and "member of no account" in alone.json()["detail"]
    async with api.platform.sessions() as session:
        rows = (await session.execute(select(SignInSession.revoked_at))).scalars().all()
    assert rows[-1] is not None


async def test_a_changed_role_counts_at_once(api: Api) -> None:
    browser = await open_browser(api.platform, "admin")
    assert (await browser.call("GET", "/v1/invitations")).status == 200
    async with api.platform.sessions() as session, session.begin():
        person = api.platform.acme.people["admin"].id
        await session.execute(update(Membership).where(Membership.person_id == person).values(role="member"))
    assert (await browser.call("GET", "/v1/invitations")).problem == (403, "not-allowed")


async def test_switching_the_account(api: Api) -> None:
    owner, other = api.platform.acme.people["owner"], api.platform.other.account
    browser = await open_browser(api.platform)
    foreign = await call(browser, "PATCH", SESSION, {"account": other.public_id})
    assert (foreign.problem, foreign.fields) == ((422, "validation-failed"), ["account"])
    async with api.platform.sessions() as session, session.begin():
        session.add(Membership(account_id=other.id, person_id=owner.id, role="member"))
    for name in (other.slug, str(other.id), other.public_id):
        switched = await call(browser, "PATCH", SESSION, {"account": name})
        assert (switched.status, switched.data["account"]["slug"]) == (200, "other")
    assert [each["role"] for each in switched.data["accounts"]] == ["owner", "member"]
    # The owners of both accounts see that the session has entered the other one.
    async with api.platform.sessions() as session:
        switches = select(AuditEntry.account_id).where(AuditEntry.action == "session.switch")
        assert set(await session.scalars(switches)) == {api.platform.acme.account.id, other.id}
    assert (await browser.call("GET", "/v1/account")).data["id"] == other.public_id
    # The next sign-in continues there, unless the membership ended.
    assert (await browser.sign_in(owner.email)).data["account"]["slug"] == "other"
    async with api.platform.sessions() as session, session.begin():
        await session.execute(delete(Membership).where(Membership.account_id == other.id))
    assert (await browser.call("GET", SESSION)).status == 401
    assert (await browser.sign_in(owner.email)).data["account"]["slug"] == "acme"


async def test_joining_by_invitation(api: Api) -> None:
    invited = await api.call("POST", "/v1/invitations", {"email": "eve@new.example"})
    body = {"invitation": invited.data["secret"], "password": PASSWORD, "name": "Eve"}
    browser = Browser(api.platform)
    details = {"invitation": body["invitation"]}
    shown = await call(browser, "POST", f"{SESSION}/invitation/details", details)
    assert shown.data == {
        "account": {"id": api.platform.acme.account.public_id, "name": "Acme", "slug": "acme"},
        "email": "eve@new.example",
        "role": "member",
        "invited_by": invited.data["invited_by"],
        "has_password": False,
        "expires_at": invited.data["expires_at"],
    }
    nameless = await call(browser, "POST", f"{SESSION}/invitation", {**body, "name": None})
    assert nameless.fields == ["name"]
    joined = await call(browser, "POST", f"{SESSION}/invitation", body)
    assert (joined.status, joined.data["person"]["name"], joined.data["role"]) == (201, "Eve", "member")
    tokens = await browser.call("GET", "/v1/tokens")
    assert tokens.data == []
    used = await call(browser, "POST", f"{SESSION}/invitation/details", details)
    assert used.problem == (404, "not-found")
    again = await call(browser, "POST", f"{SESSION}/invitation", body)
    assert again.problem == (404, "not-found")
    assert (await browser.sign_in("eve@new.example")).status == 201


async def test_a_link_or_an_invitation_hashes_within_limits(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = 0

    async def refuse(_hasher: PasswordHasher, _password: str) -> str:
        nonlocal hashed
        hashed += 1
        raise NotFound("Somebody else was faster.")

    monkeypatch.setattr(PasswordHasher, "hash", refuse)
    invited = await api.call("POST", "/v1/invitations", {"email": "eve@new.example"})
    browser = Browser(api.platform)
    body = {"invitation": invited.data["secret"], "password": PASSWORD}
    # A request that cannot work hashes nothing.
    for name in (None, "", "E" * 1000):
        refused = await call(browser, "POST", f"{SESSION}/invitation", {**body, "name": name})
        assert refused.fields == ["name"]
    assert hashed == 0
    link = {"link": await add_link(api), "password": PASSWORD}
    for path, sent in (("invitation", {**body, "name": "Eve"}), ("link", link)):
        hashed = 0
        answers = [(await call(browser, "POST", f"{SESSION}/{path}", sent)).status for _ in range(12)]
        assert answers.count(404) == hashed and 10 <= hashed < 12
        assert answers[-1] == 429


async def test_an_invitation_opens_no_other_account(api: Api) -> None:
    """The creator of an invitation knows its secret, and must not get access to the person's other accounts."""
    other = api.platform.other.people["viewer"]
    invited = await api.call("POST", "/v1/invitations", {"email": other.email})
    body = {"invitation": invited.data["secret"], "password": PASSWORD, "name": "Mallory"}
    browser = Browser(api.platform)
    refused = await call(browser, "POST", f"{SESSION}/invitation", body)
    assert refused.problem == (409, "conflict") and "sign-in link" in refused.json()["detail"]
    await add_password(api.platform, other, OTHER_PASSWORD)
    assert (await call(browser, "POST", f"{SESSION}/invitation", body)).problem == (401, "sign-in-refused")
    joined = await call(browser, "POST", f"{SESSION}/invitation", {**body, "password": OTHER_PASSWORD})
    assert joined.status == 201
    assert [each["slug"] for each in joined.data["accounts"]] == ["acme", "other"]
    # A role in a project of the other account gives no role here.
    assert joined.data["project_roles"] == {}
    switched = await call(browser, "PATCH", SESSION, {"account": "other"})
    [role] = switched.data["project_roles"].values()
    assert role == "viewer"
    assert joined.data["person"]["name"] == other.name


async def test_token_without_all_scopes_creates_no_sign_in(api: Api) -> None:
    scopes = frozenset({"account:read", "account:write"})
    shared = api.platform.acme
    async with api.platform.sessions() as session, session.begin():
        token = await add_token(session, shared, shared.people["owner"], scopes)
    link = f"/v1/people/{shared.people['viewer'].public_id}/sign-in-link"
    for path, sent in (("/v1/invitations", {"email": "eve@new.example"}), (link, {})):
        refused = await api.platform.call("POST", path, sent, token=token)
        assert refused.problem == (403, "missing-scope")
    # An invitation of an earlier version, in which such a token could create it.
    invited = await api.call("POST", "/v1/invitations", {"email": "eve@new.example"})
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Invitation).values(scopes=" ".join(sorted(scopes))))
    body = {"invitation": invited.data["secret"], "password": PASSWORD, "name": "Eve"}
    refused = await call(Browser(api.platform), "POST", f"{SESSION}/invitation", body)
    assert refused.problem == (409, "conflict")


async def test_everybody_signs_in_to_their_role(api: Api) -> None:
    for person, (role, _) in PEOPLE.items():
        browser = await open_browser(api.platform, person)
        assert (await call(browser, "GET", SESSION)).data["role"] == role
        # A token outlives the session, so a person at an unlocked computer must not be able to create one.
        body = {"name": "mine", "scopes": ["deploy:read"]}
        for password in (None, "wrong"):
            refused = await call(browser, "POST", "/v1/tokens", {**body, "password": password})
            assert (refused.status, refused.fields) == (422, ["password"])
        mine = await call(browser, "POST", "/v1/tokens", {**body, "password": PASSWORD})
        assert mine.status == 201 and mine.data["expires_at"] is None and mine.data["is_current"] is False
