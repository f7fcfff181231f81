"""A browser that is signed in to a platform: it keeps the session cookie and sends the headers that browsers send."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.cookies import SimpleCookie
from typing import Any, cast

from multidict import CIMultiDictProxy

from control_domain.sign_in.password_hashes import PasswordHasher
from control_domain.sign_in.passwords import set_password_hash
from control_domain.tables.accounts import Person
from tests.support.deploy_platform import Platform, Response

PASSWORD = "violet anchors drift north"
OTHER_PASSWORD = "seven quiet lanterns hum"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass(slots=True)
class Browser:
    """One browser with its cookies."""

    platform: Platform
    cookies: dict[str, str] = field(default_factory=dict)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str | None] = SAME_ORIGIN,
    ) -> Response:
        """Call the API with the cookies, from a page of the same origin unless `headers` say otherwise."""
        sent: dict[str, str | None] = {"Authorization": None, **headers}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        response = await self.platform.call(method, path, body, headers=sent)
        for header in cast(CIMultiDictProxy[str], response.headers).getall("Set-Cookie", []):
            for name, morsel in SimpleCookie(header).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return response

    async def sign_in(self, email: str, password: str = PASSWORD, code: str | None = None) -> Response:
        """Sign in, and return the response."""
        return await self.call("POST", "/v1/session", {"email": email, "password": password, "code": code})

    def copy(self) -> "Browser":
        """Return another browser with the same cookies: another tab, or a thief."""
        return Browser(self.platform, dict(self.cookies))


async def add_password(platform: Platform, person: Person, password: str = PASSWORD) -> None:
    """Give the person a password."""
    hash = await PasswordHasher().hash(password)
    async with platform.sessions() as session, session.begin():
        await set_password_hash(session, person.id, hash, datetime.now(UTC))


async def open_browser(platform: Platform, person: str = "owner") -> Browser:
    """Return a browser in which this person of acme is signed in, with `PASSWORD`."""
    await add_password(platform, platform.acme.people[person])
    browser = Browser(platform)
    response = await browser.sign_in(platform.acme.people[person].email)
    assert response.status == 201, response.body
    return browser
