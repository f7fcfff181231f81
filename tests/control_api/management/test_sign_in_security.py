"""Passwords, second factors and sessions of a person who is signed in, and sign-in links for others."""

import asyncio
import time
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.sign_in import password_hashes
from control_domain.sign_in.totp import make_totp_code
from control_domain.tables.accounts import Membership
from control_domain.tables.audit import AuditEntry
from control_domain.tables.sign_in import SecondFactor
from tests.control_api.management.conftest import Api, check_response
from tests.support.browsers import OTHER_PASSWORD, PASSWORD, SAME_ORIGIN, Browser, open_browser
from tests.support.deploy_platform import SESSION_COOKIE, Response

SESSION, ME = "/v1/session", "/v1/me"
COOKIE = SESSION_COOKIE


async def call(browser: Browser, method: str, path: str, body: Any = None) -> Response:
    response = await browser.call(method, path, body)
    check_response(method, path, response)
    return response


def present_code(secret: str, steps: int = 0) -> str:
    return make_totp_code(secret, int(time.time() // 30) + steps)


async def enable_second_factor(browser: Browser) -> tuple[str, str, list[str]]:
    """Return the secret of the authenticator, the code that confirmed it, and the recovery codes."""
    begun = await call(browser, "POST", f"{ME}/second-factor", {"password": PASSWORD})
    assert begun.status == 201, begun.body
    secret = begun.data["secret"]
    code = present_code(secret, -1)
    confirmed = await call(browser, "POST", f"{ME}/second-factor/confirm", {"code": code})
    assert confirmed.status == 200, confirmed.body
    return secret, code, confirmed.data["recovery_codes"]


async def test_changing_the_password(api: Api) -> None:
    browser, elsewhere = await open_browser(api.platform), await open_browser(api.platform)
    path = f"{ME}/password"
    wrong = await call(browser, "PUT", path, {"password": OTHER_PASSWORD, "current_password": "wrong"})
    assert (wrong.status, wrong.fields) == (422, ["current_password"])
    weak = await call(browser, "PUT", path, {"password": "password1234", "current_password": PASSWORD})
    assert (weak.status, weak.fields) == (422, ["password"])
    former = browser.copy()
    changed = await call(browser, "PUT", path, {"password": OTHER_PASSWORD, "current_password": PASSWORD})
    assert changed.status == 200 and browser.cookies != former.cookies
    assert [(await each.call("GET", SESSION)).status for each in (browser, former, elsewhere)] == [
        200,
        401,
        401,
    ]
    assert (await elsewhere.sign_in("owner@acme.example")).status == 401
    assert (await elsewhere.sign_in("owner@acme.example", OTHER_PASSWORD)).status == 201
    # API tokens outlive the password unless they are revoked with it, in all accounts; each account has an entry.
    platform = api.platform
    assert (await api.call("GET", "/v1/me")).status == 200
    async with platform.sessions() as session, session.begin():
        owner = platform.acme.people["owner"].id
        session.add(Membership(account_id=platform.other.account.id, person_id=owner, role="member"))
    body = {"password": PASSWORD, "current_password": OTHER_PASSWORD, "revoke_tokens": True}
    assert (await call(browser, "PUT", path, body)).status == 200
    assert (await api.call("GET", "/v1/me")).problem == (401, "invalid-credential")
    async with platform.sessions() as session:
        query = select(AuditEntry.account_id).where(AuditEntry.action == "password.set")
        entries = (await session.scalars(query.order_by(AuditEntry.id.desc()))).all()
    assert set(entries[:2]) == {platform.acme.account.id, platform.other.account.id}
    # A thief of a session has a limited number of password guesses.
    guesses = [
        (
            await call(browser, "PUT", path, {"password": OTHER_PASSWORD, "current_password": f"wrong {n}"})
        ).status
        for n in range(7)
    ]
    assert guesses[0] == 422 and guesses[-1] == 429


async def test_the_second_factor(api: Api) -> None:
    owner = "owner@acme.example"
    browser = await open_browser(api.platform)
    assert (await call(browser, "POST", f"{ME}/second-factor", {"password": "wrong"})).fields == ["password"]
    early = await call(browser, "POST", f"{ME}/second-factor/confirm", {"code": "123456"})
    assert early.problem == (409, "conflict")
    begun = await call(browser, "POST", f"{ME}/second-factor", {"password": PASSWORD})
    assert begun.data["otpauth_url"].startswith("otpauth://totp/Pharos:owner%40acme.example?secret=")
    assert begun.data["qr_code"].startswith("<svg ") and "<script" not in begun.data["qr_code"]
    refused = await call(browser, "POST", f"{ME}/second-factor/confirm", {"code": "abc"})
    assert (refused.status, refused.fields) == (422, ["code"])
    # The code is not required before it is confirmed.
    assert (await Browser(api.platform).sign_in(owner)).status == 201
    former = browser.copy()
    secret, used_code, codes = await enable_second_factor(browser)
    assert len(set(codes)) == 10 and secret not in str(await api.platform.contents())
    assert [(await each.call("GET", SESSION)).status for each in (browser, former)] == [200, 401]
    assert (await call(browser, "GET", f"{ME}/second-factor")).data == {"second_factor": True}
    again = await call(browser, "POST", f"{ME}/second-factor", {"password": PASSWORD})
    assert again.problem == (409, "conflict")

    other = Browser(api.platform)
    for code in (None, "", " "):
        asked = await call(other, "POST", SESSION, {"email": owner, "password": PASSWORD, "code": code})
        assert asked.problem == (401, "second-factor-required")
    # The code that has confirmed it, a wrong code, and a code with the wrong password.
    for password, code in (
        (PASSWORD, used_code),
        (PASSWORD, "000000x"),
        ("wrong", present_code(secret)),
    ):
        assert (await other.sign_in(owner, password, code)).problem == (401, "sign-in-refused")
    # One of two requests with the same code succeeds. Authenticators show the code with a space.
    code = present_code(secret)
    both = await asyncio.gather(
        *(Browser(api.platform).sign_in(owner, code=f" {code[:3]} {code[3:]}") for _ in range(2))
    )
    assert sorted(each.status for each in both) == [201, 401]
    # A code that was used while the clock was an hour ahead.
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(SecondFactor).values(last_step=SecondFactor.last_step + 120))
    assert (await other.sign_in(owner, code=present_code(secret, 1))).status == 201
    # Recovery codes work once each, in any notation.
    assert (await other.sign_in(owner, code=codes[0].upper().replace("-", " "))).status == 201
    assert (await other.sign_in(owner, code=codes[0])).status == 401
    assert (await other.sign_in(owner, code=codes[1])).status == 201

    assert (await call(browser, "POST", f"{ME}/second-factor/remove", {"password": "wrong"})).status == 422
    removed = await call(browser, "POST", f"{ME}/second-factor/remove", {"password": PASSWORD})
    assert removed.data == {"second_factor": False}
    assert (await other.sign_in(owner)).status == 201
    assert [action for action, _ in await api.audit(20) if action.startswith("second")] == [
        "second-factor.disable",
        "second-factor.enable",
    ]


async def test_guesses_of_codes_are_limited(api: Api) -> None:
    browser = await open_browser(api.platform)
    await enable_second_factor(browser)
    results = [
        (await Browser(api.platform).sign_in("owner@acme.example", code="000000")).status for _ in range(12)
    ]
    assert results[-1] == 429 and results.count(401) == 10


async def test_a_second_factor_whose_key_is_lost(api: Api) -> None:
    browser = await open_browser(api.platform)
    secret, _, codes = await enable_second_factor(browser)
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(SecondFactor).values(key_id="00000000"))
    lost = await browser.sign_in("owner@acme.example", code=present_code(secret))
    assert lost.problem == (409, "conflict")
    assert (await browser.sign_in("owner@acme.example", code=codes[0])).status == 201


async def test_sessions_are_listed_and_ended(api: Api) -> None:
    browsers = [await open_browser(api.platform) for _ in range(3)]
    stranger = await open_browser(api.platform, "stranger")
    first = (await call(browsers[0], "GET", "/v1/sessions")).data
    assert [each["is_current"] for each in first] == [False, False, True]
    assert {each["method"] for each in first} == {"password"} and first[0]["address"] == "127.0.0.1"
    for number in (first[0]["id"], 999_999):
        foreign = await call(stranger, "DELETE", f"/v1/sessions/{number}")
        assert foreign.problem == (404, "not-found")
    assert (await call(browsers[0], "DELETE", f"/v1/sessions/{first[0]['id']}")).data == {"ended": 1}
    assert [(await each.call("GET", SESSION)).status for each in browsers] == [200, 200, 401]
    again = await call(browsers[0], "DELETE", f"/v1/sessions/{first[0]['id']}")
    assert again.problem == (404, "not-found")
    assert (await call(browsers[0], "DELETE", "/v1/sessions")).data == {"ended": 1}
    assert [(await each.call("GET", SESSION)).status for each in browsers] == [200, 401, 401]
    assert (await stranger.call("GET", SESSION)).status == 200


async def test_links_for_others(api: Api) -> None:
    platform, people = api.platform, api.platform.acme.people

    def path(person: str) -> str:
        return f"/v1/people/{people[person].public_id}/sign-in-link"

    admin, viewer = await open_browser(platform, "admin"), await open_browser(platform, "viewer")
    assert (await call(viewer, "POST", path("deployer"))).problem == (403, "not-allowed")
    of_owner = await call(admin, "POST", path("owner"), {"password": PASSWORD})
    assert of_owner.problem == (403, "not-allowed")
    # An unlocked computer is not enough, and no person can replace their own password this way, not even with a token.
    for body in (None, {"password": "wrong"}):
        unlocked = await call(admin, "POST", path("viewer"), body)
        assert (unlocked.status, unlocked.fields) == (422, ["password"])
    own = await call(admin, "POST", path("admin"), {"password": PASSWORD})
    assert own.problem == (409, "conflict") and "Settings" in own.json()["detail"]
    await api.expect((409, "conflict"), "POST", path("owner"))
    made = await call(admin, "POST", path("viewer"), {"password": PASSWORD})
    link = made.data["link"]
    assert made.status == 201 and made.data["url"].endswith(f"/sign-in#link={link.removeprefix('phr_lnk_')}")
    assert link not in str(await platform.contents())
    # The link ends no session before it is used. The fragment of its URL is the whole secret.
    assert (await viewer.call("GET", SESSION)).status == 200
    used = await call(
        Browser(platform), "POST", f"{SESSION}/link", {"link": link[8:], "password": OTHER_PASSWORD}
    )
    assert used.data["person"]["email"] == "viewer@acme.example"
    assert (await viewer.call("GET", SESSION)).status == 401
    # A link gives access to all accounts of the person, so its creator must be able to manage the person in each of
    # them.
    later = (await call(admin, "POST", path("viewer"), {"password": PASSWORD})).data["link"]
    async with platform.sessions() as session, session.begin():
        session.add(
            Membership(account_id=platform.other.account.id, person_id=people["viewer"].id, role="member")
        )
    again = await call(admin, "POST", path("viewer"), {"password": PASSWORD})
    assert again.problem == (409, "conflict")
    body = {"link": later, "password": PASSWORD}
    assert (await call(Browser(platform), "POST", f"{SESSION}/link", body)).problem == (404, "not-found")


async def test_a_link_of_an_admin_keeps_the_second_factor(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed attempt does not use up a code either."""
    people = api.platform.acme.people
    viewer, admin = await open_browser(api.platform, "viewer"), await open_browser(api.platform, "admin")
    _, _, codes = await enable_second_factor(viewer)
    path = f"/v1/people/{people['viewer'].public_id}/sign-in-link"
    made = await call(admin, "POST", path, {"password": PASSWORD})
    body = {"link": made.data["link"], "password": OTHER_PASSWORD}
    browser = Browser(api.platform)
    asked = await call(browser, "POST", f"{SESSION}/link", body)
    assert asked.problem == (401, "second-factor-required")
    body["code"] = codes[0]
    with monkeypatch.context() as busy:
        busy.setattr(password_hashes, "_MAX_WAITING", 0)
        url = f"{api.platform.url}/api{SESSION}/link"
        async with api.platform.http.post(url, json=body, headers=SAME_ORIGIN) as full:
            assert full.status == 503
    used = await call(browser, "POST", f"{SESSION}/link", body)
    assert used.status == 201 and used.data["second_factor"] is True
