"""Sign-in with an OpenID Connect provider: a real one in this process, which signs tokens."""

import asyncio
import base64
import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from sqlalchemy import delete

from control_api.oidc import provider as provider_module
from control_api.oidc.failures import ProviderFailed
from control_api.oidc.oidc_settings import OidcSettings, read_oidc_settings
from control_api.oidc.provider import OidcProvider
from control_api.routes import oidc
from control_domain.audit import Actor
from control_domain.sign_in import oidc as oidc_of_people
from control_domain.sign_in.attempt_limits import AttemptLimit
from control_domain.sign_in.links import create_link
from control_domain.sign_in.oidc import OidcPerson, UnknownPerson, find_oidc_person
from control_domain.tables.sign_in import Password
from pipeline_contracts.settings import BadSettings, Settings
from tests.control_api.management.conftest import Api, api, check_response, prepared
from tests.control_api.management.test_sign_in_security import enable_second_factor
from tests.support.browsers import PASSWORD, Browser, open_browser

__all__ = ["api", "prepared"]

CLIENT, SECRET = "pharos client", "se:cret+1"
IDENTITIES = "/v1/me/identities"
BEGIN, CALLBACK = "/v1/session/oidc", "/v1/session/oidc/callback"


@dataclass(slots=True)
class Provider:
    """The provider: its claims about the person, and the requests that it received."""

    url: str = ""
    keys: list[Any] = field(default_factory=lambda: [ECKey.generate_key("P-256", {"kid": "1"})])
    claims: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] = field(default_factory=lambda: {"alg": "ES256", "kid": "1"})
    signing_key: Any = None
    nonce: str = ""
    challenge: str = ""
    status: int = 200

    async def configuration(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize?tenant=1",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
            }
        )

    async def jwks(self, _request: web.Request) -> web.Response:
        return web.json_response({"keys": [key.as_dict(private=False) for key in self.keys]})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        pair = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        assert pair == "pharos%20client:se%3Acret%2B1"
        verifier = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        assert base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() == self.challenge
        assert (form["code"], form["grant_type"]) == ("the code", "authorization_code")
        now = int(time.time())
        claims = {
            **{"iss": self.url, "aud": CLIENT, "sub": "ada-1", "exp": now + 60, "iat": now},
            **{"nonce": self.nonce, "email": "Owner@acme.example", "email_verified": True, "name": "Ada"},
            **self.claims,
        }
        signed = jwt.encode(
            self.headers, claims, self.signing_key or self.keys[0], algorithms=[self.headers["alg"]]
        )
        return web.json_response({"id_token": signed, "access_token": "x"}, status=self.status)


@pytest.fixture
async def provider(api: Api) -> AsyncIterator[Provider]:
    made = Provider()
    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", made.configuration)
    application.router.add_get("/keys", made.jwks)
    application.router.add_post("/token", made.token)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    redirect = f"{api.platform.url}/api{CALLBACK}"
    settings = OidcSettings(made.url, CLIENT, SECRET, "Acme ID", redirect, allow_private=True)
    api.platform.app.state.oidc = OidcProvider(settings)
    yield made
    await runner.cleanup()


async def sign_in(
    api: Api, provider: Provider, browser: Browser | None = None, **changes: str | None
) -> tuple[Browser, str]:
    """Return a browser that went to the provider and back, and the address at which it ended. `changes` are changes of
    the query with which the provider redirects the browser."""
    browser = browser or Browser(api.platform)
    begun = await browser.call("GET", f"{BEGIN}?next=/jobs%3Fa=1", headers={})
    assert begun.status == 302, begun.body
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["Location"]).query).items()}
    assert asked["redirect_uri"].endswith(CALLBACK) and asked["tenant"] == "1"
    provider.nonce, provider.challenge = asked["nonce"], asked["code_challenge"]
    query = {"state": asked["state"], "code": "the code", **changes}
    sent = urlencode({name: value for name, value in query.items() if value is not None})
    back = await browser.call("GET", f"{CALLBACK}?{sent}", headers={"Sec-Fetch-Site": "cross-site"})
    assert back.status == 302, back.body
    assert not [name for name in browser.cookies if name.startswith("pharos_oidc")]
    return browser, back.headers["Location"]


async def test_a_member_signs_in(api: Api, provider: Provider) -> None:
    assert (await Browser(api.platform).call("GET", "/v1/session/options")).data["oidc_name"] == "Acme ID"
    browser, location = await sign_in(api, provider)
    assert location == "/jobs?a=1"
    session = (await browser.call("GET", "/v1/session")).data
    assert (session["person"]["email"], session["has_password"]) == ("owner@acme.example", False)
    assert (await browser.call("GET", "/v1/sessions")).data[0]["method"] == "oidc"
    # The same identity is the same person, even after a change of the address.
    provider.claims = {"email": "ada@elsewhere.example", "email_verified": False}
    browser, location = await sign_in(api, provider)
    assert (await browser.call("GET", "/v1/session")).data["person"] == session["person"]
    # Another identity that got the address later is not this person.
    provider.claims = {"sub": "ada-2"}
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-changed"
    # Shortly after a sign-in, a first password can be set without another proof.
    changed = await browser.call("PUT", "/v1/me/password", {"password": "violet anchors drift north"})
    assert changed.status == 200 and changed.data["has_password"] is True


async def test_several_cookies_of_a_sign_in_are_none(api: Api, provider: Provider) -> None:
    """Another application of the domain cannot choose the sign-in that a callback finishes."""
    browser = Browser(api.platform)
    begun = await browser.call("GET", BEGIN, headers={})
    state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
    [(name, value)] = browser.cookies.items()
    sent = {"Cookie": f"{name}={value}; {name}=evil"}
    back = await Browser(api.platform).call("GET", f"{CALLBACK}?state={state}&code=x", headers=sent)
    assert back.headers["Location"] == "/sign-in?problem=oidc-expired"
    assert f"{name}=; Path=/api; Max-Age=0" in back.headers.getall("Set-Cookie")


async def test_a_sign_in_begins_at_the_public_address(
    api: Api, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    """The provider redirects people to that address, where a cookie of another host would be missing."""
    app, browser = api.platform.app, Browser(api.platform)
    app.state.public_url = "http://pharos.example/"
    begun = await browser.call("GET", f"{BEGIN}?next=/jobs%3Fa=1%26b", headers={})
    assert begun.headers["Location"] == (f"http://pharos.example/api{BEGIN}?next=%2Fjobs%3Fa%3D1%26b&here=1")
    assert not browser.cookies
    # Behind a proxy that changes the host, the second request continues.
    begun = await browser.call("GET", f"{BEGIN}?here=1", headers={})
    assert begun.headers["Location"].startswith(provider.url)
    for public in ("HTTP://PHAROS.example:80", api.platform.url):
        app.state.public_url = public
        host = {"Host": "pharos.example"} if "example" in public else {}
        begun = await browser.call("GET", BEGIN, headers=host)
        assert begun.headers["Location"].startswith(provider.url)
    state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
    back = await Browser(api.platform).call("GET", f"{CALLBACK}?state={state}&code=1", headers={})
    assert back.headers["Location"] == "/sign-in?problem=oidc-expired"
    assert f"without its cookie to {api.platform.url}" in caplog.text


async def test_a_state_works_once(api: Api, provider: Provider) -> None:
    """Otherwise a caller with one cookie could send any number of codes to the provider."""
    browser = Browser(api.platform)
    begun = await browser.call("GET", BEGIN, headers={})
    thief = browser.copy()
    asked = parse_qs(urlsplit(begun.headers["Location"]).query)
    state, provider.challenge = asked["state"][0], asked["code_challenge"][0]
    provider.status = 400
    results = []
    for each in (browser, thief):
        back = await each.call("GET", f"{CALLBACK}?state={state}&code=the+code", headers={})
        results.append(back.headers["Location"])
    assert results == ["/sign-in?problem=oidc-failed", "/sign-in?problem=oidc-expired"]


async def test_the_first_sign_ins_of_a_person_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sign-in finds the identity bound to the same person."""
    sessions, owner = api.platform.sessions, api.platform.acme.people["owner"]
    known = OidcPerson("https://id.example", "ada-1", owner.email, True, "Ada")
    now, actor = datetime.now(UTC), Actor("192.0.2.1")
    bind = oidc_of_people.bind_identity

    async def bind_second(*given: Any) -> bool:
        async with sessions() as other, other.begin():
            assert await bind(other, *given[1:])
        return await bind(*given)

    monkeypatch.setattr(oidc_of_people, "bind_identity", bind_second)
    async with sessions() as session, session.begin():
        assert (await find_oidc_person(session, known, None, actor, now)).id == owner.id
    # Another identity with the same address belongs to another person.
    monkeypatch.undo()
    async with sessions() as session, session.begin():
        with pytest.raises(UnknownPerson, match="oidc-changed"):
            await find_oidc_person(session, replace(known, subject="ada-2"), None, actor, now)


async def test_an_invited_person_joins(api: Api, provider: Provider) -> None:
    provider.claims = {"email": "eve@new.example", "sub": "eve", "name": "Eve"}
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-unknown"
    assert (await api.call("POST", "/v1/invitations", {"email": "eve@new.example"})).status == 201
    provider.claims["email_verified"] = "true"
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-unverified"
    del provider.claims["email_verified"]
    browser, location = await sign_in(api, provider)
    person = (await browser.call("GET", "/v1/session")).data["person"]
    assert (location, person["name"], person["email"]) == ("/jobs?a=1", "Eve", "eve@new.example")


async def test_an_invited_person_joins_again_after_a_removal(api: Api, provider: Provider) -> None:
    viewer = api.platform.acme.people["viewer"]
    provider.claims = {"email": viewer.email, "sub": "viewer"}
    assert (await sign_in(api, provider))[1] == "/jobs?a=1"
    assert (await api.call("DELETE", f"/v1/people/{viewer.public_id}")).status == 200
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-unknown"
    assert (await api.call("POST", "/v1/invitations", {"email": viewer.email})).status == 201
    # The invitation is for the address, which may belong to another person at the provider by now.
    provider.claims["email"] = "viewer@elsewhere.example"
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-unknown"
    provider.claims["email"] = viewer.email
    browser, location = await sign_in(api, provider)
    person = (await browser.call("GET", "/v1/session")).data["person"]
    assert (location, person["id"]) == ("/jobs?a=1", viewer.public_id)


async def test_a_second_factor_is_not_passed_by_the_provider(api: Api, provider: Provider) -> None:
    """A person who temporarily has this address at the provider cannot bind an identity or sign in otherwise."""
    browser = await open_browser(api.platform)
    secret, _, codes = await enable_second_factor(browser)
    former = browser.copy()
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-second-factor"
    # A session of another person changes nothing.
    admin = await open_browser(api.platform, "admin")
    assert (await sign_in(api, provider, admin))[1] == "/sign-in?problem=oidc-second-factor"
    # The person, after password and code, connects the identity. The browser's former session ends.
    assert (await sign_in(api, provider, browser))[1] == "/jobs?a=1"
    assert (await former.call("GET", "/v1/session")).status == 401
    actions = [action for action, _ in await api.audit(3)]
    assert actions == ["session.create", "session.revoke", "oidc.bind"]

    # Without a password, a code is required in place of the password.
    async with api.platform.sessions() as session, session.begin():
        await session.execute(delete(Password))
    new = {"password": "seven quiet lanterns hum"}
    for path, method, body in (
        ("/v1/me/password", "PUT", new),
        ("/v1/me/password", "PUT", {**new, "code": "000000"}),
        ("/v1/me/second-factor/remove", "POST", {}),
        ("/v1/me/second-factor/remove", "POST", {"code": "x"}),
    ):
        refused = await browser.call(method, path, body)
        assert (refused.status, refused.fields) == (422, ["code"]), body
    changed = await browser.call("PUT", "/v1/me/password", {**new, "code": codes[0]})
    assert changed.status == 200 and changed.data["second_factor"] is True


async def test_identities_are_listed_and_removed(api: Api, provider: Provider) -> None:
    browser, _ = await sign_in(api, provider)
    (identity,) = (await browser.call("GET", IDENTITIES)).data
    assert (identity["issuer"], identity["subject"]) == (provider.url, "ada-1")
    stranger = await open_browser(api.platform, "stranger")
    own = f"{IDENTITIES}/{identity['id']}"
    assert (await stranger.call("GET", IDENTITIES)).data == []
    assert (await stranger.call("DELETE", own)).problem == (404, "not-found")
    # Otherwise the person could not sign in any more.
    assert (await browser.call("DELETE", own)).problem == (409, "conflict")
    assert (await browser.call("PUT", "/v1/me/password", {"password": PASSWORD})).status == 200
    removed = await browser.call("DELETE", own)
    check_response("DELETE", own, removed)
    assert (removed.status, removed.data) == (200, identity)
    assert (await api.audit(1))[0][0] == "oidc.unbind"
    # An operator's link removes identities that another person may have bound.
    provider.claims = {"sub": "mallory"}
    assert (await sign_in(api, provider))[1] == "/jobs?a=1"
    async with api.platform.sessions() as session, session.begin():
        owner = api.platform.acme.people["owner"]
        link = await create_link(session, owner, None, datetime.now(UTC))
    body = {"link": link.secret, "password": "seven quiet lanterns hum"}
    assert (await browser.call("POST", "/v1/session/link", body)).status == 201
    assert (await browser.call("GET", IDENTITIES)).data == []


async def test_invalid_responses_of_the_provider_are_refused(api: Api, provider: Provider) -> None:
    now = int(time.time())
    before = (await api.platform.contents())["sign_in_sessions"]
    for claims in (
        {"iss": "https://other.example"},
        {"aud": "another client"},
        {"aud": [CLIENT, "another"]},
        {"azp": "another client"},
        {"exp": now - 61},
        {"exp": "never"},
        {"iat": now + 120},
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"sub": ""},
        {"sub": "x" * 256},
    ):
        provider.claims = claims
        assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-failed", claims
    provider.claims = {}
    public = base64.urlsafe_b64encode(str(provider.keys[0].as_dict(private=False)).encode()).decode()
    for headers, key in (
        ({"alg": "ES256", "kid": "1"}, ECKey.generate_key("P-256")),
        # A signature with public data as the shared secret.
        ({"alg": "HS256", "kid": "1"}, OctKey.import_key(public)),
        ({"alg": "RS256", "kid": "1"}, RSAKey.generate_key(2048)),
    ):
        provider.headers, provider.signing_key = headers, key
        assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-failed", headers
    provider.headers, provider.signing_key, provider.status = {"alg": "ES256", "kid": "1"}, None, 400
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-failed"
    provider.status = 200
    for changes, problem in (
        ({"state": "x"}, "expired"),
        ({"state": None}, "expired"),
        ({"code": None, "error": "access_denied"}, "refused"),
    ):
        assert (await sign_in(api, provider, **changes))[1] == f"/sign-in?problem=oidc-{problem}"
    # The response to the sign-in of another browser.
    stranger = await Browser(api.platform).call("GET", f"{CALLBACK}?state=x&code=y", headers={})
    assert stranger.headers["Location"] == "/sign-in?problem=oidc-expired"
    assert (await api.platform.contents())["sign_in_sessions"] == before


async def test_changed_keys(api: Api, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await sign_in(api, provider))[1] == "/jobs?a=1"
    provider.keys = [ECKey.generate_key("P-256", {"kid": "2"})]
    provider.headers = {"alg": "ES256", "kid": "2"}
    assert (await sign_in(api, provider))[1] == "/sign-in?problem=oidc-failed"
    monkeypatch.setattr(provider_module, "_SHORTEST_KEPT_SECONDS", 0.0)
    assert (await sign_in(api, provider))[1] == "/jobs?a=1"
    assert KeySet(provider.keys)


async def test_only_pages_of_the_dashboard_are_opened_afterwards(api: Api, provider: Provider) -> None:
    for given in ("//evil.example", "https://evil.example", "/\\evil.example", "/%09/evil.example", "x"):
        browser = Browser(api.platform)
        begun = await browser.call("GET", f"{BEGIN}?{urlencode({'next': given})}", headers={})
        asked = parse_qs(urlsplit(begun.headers["Location"]).query)
        provider.nonce, provider.challenge = asked["nonce"][0], asked["code_challenge"][0]
        query = urlencode({"state": asked["state"][0], "code": "the code"})
        back = await browser.call("GET", f"{CALLBACK}?{query}", headers={})
        assert back.headers["Location"] in ("/", "/%09/evil.example")


async def test_sign_ins_of_a_network_that_fail_are_limited(
    api: Api, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one sends the provider a request with the secret of this installation."""
    monkeypatch.setattr(oidc, "limits_of_address", lambda network: [AttemptLimit(network, 2, 3600.0)])
    for _ in range(3):
        # A successful attempt is not counted.
        assert (await sign_in(api, provider))[1] == "/jobs?a=1"
    provider.status = 400
    for problem in ("failed", "failed", "often", "often"):
        assert (await sign_in(api, provider))[1] == f"/sign-in?problem=oidc-{problem}"


async def test_without_a_provider(api: Api) -> None:
    for path in (BEGIN, CALLBACK):
        assert (await api.platform.call("GET", path)).problem == (404, "not-found")


async def test_a_provider_that_cannot_be_reached(api: Api, provider: Provider) -> None:
    unreachable = OidcSettings("http://127.0.0.1:9", CLIENT, SECRET, "x", "http://x/", allow_private=True)
    private = OidcSettings(provider.url, CLIENT, SECRET, "x", "http://x/", allow_private=False)
    other = OidcSettings(f"{provider.url}/", CLIENT, SECRET, "x", "http://x/", allow_private=True)
    for settings in (unreachable, private, other):
        api.platform.app.state.oidc = OidcProvider(settings)
        begun = await Browser(api.platform).call("GET", BEGIN, headers={})
        assert begun.headers["Location"] == "/sign-in?problem=oidc-failed", settings


async def test_requests_to_an_unavailable_provider_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each sign-in would wait 10 s, and send the provider a request."""
    now, asked = [0.0], []
    made = OidcProvider(
        OidcSettings("https://id.example", CLIENT, SECRET, "x", "http://x/", allow_private=False),
        monotonic=lambda: now[0],
    )

    async def request(method: str, url: str, *_: Any) -> Any:
        asked.append(url)
        await asyncio.sleep(0)
        raise ProviderFailed("id.example did not answer within 10 s.")

    monkeypatch.setattr(made, "_request", request)
    for seconds, requests in ((0.0, 1), (4.9, 1), (5.1, 2)):
        now[0] = seconds
        found = await asyncio.gather(
            *(made.make_authorization_url("s", "n", "c") for _ in range(20)), return_exceptions=True
        )
        assert {str(each) for each in found} == {"id.example did not answer within 10 s."}
        assert len(asked) == requests


def test_settings() -> None:
    whole = {
        "oidc_issuer": "https://id.example/realms/acme",
        "oidc_client_id": "pharos",
        "oidc_client_secret": "x",
        "public_url": "https://pharos.example/",
    }
    assert read_oidc_settings(Settings()) is None
    read = read_oidc_settings(Settings(**whole))
    assert read is not None
    assert read.redirect_url == "https://pharos.example/api/v1/session/oidc/callback"
    for name, value in (
        ("oidc_issuer", "http://id.example"),
        ("oidc_issuer", "https://id.example/?a"),
        ("oidc_issuer", "id.example"),
        ("oidc_client_id", None),
        ("oidc_client_secret", None),
        ("public_url", None),
    ):
        with pytest.raises(BadSettings, match="PHAROS_OIDC_ISSUER"):
            read_oidc_settings(Settings(**{**whole, name: value}))
