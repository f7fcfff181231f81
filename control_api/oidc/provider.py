"""Requests to the OpenID Connect provider: its configuration and keys, which are cached, and ID tokens."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from control_api.oidc.failures import BadIdToken, ProviderFailed
from control_api.oidc.oidc_settings import OidcSettings
from control_domain.notifications.destination_formats import find_http_url_fault
from control_domain.sign_in.oidc import OidcPerson
from notifications.channels.interface import DeliveryFailed
from notifications.channels.outbound_http.client import open_outbound_http

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_KEPT_SECONDS = 600.0
_SHORTEST_KEPT_SECONDS = 60.0
_SECONDS = 10.0
_FAILURE_SECONDS = 5.0
_MAX_BYTES = 64 * 1024


class OidcProvider:
    """The provider of an installation."""

    def __init__(
        self,
        settings: OidcSettings,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._clock, self._monotonic = clock, monotonic
        self._configuration: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._used_states: dict[str, float] = {}
        # One request reads, and the others wait for its result.
        self._reading = asyncio.Lock()
        self._failure: tuple[float, ProviderFailed] | None = None
        """The last failure to read the configuration or the keys, and the time before which no request tries again."""

    async def make_authorization_url(self, state: str, nonce: str, challenge: str) -> str:
        """Return the page of the provider on which the person signs in. Raises `ProviderFailed`.

        `challenge`: the SHA-256 of the verifier of this sign-in (PKCE, RFC 7636).
        """
        endpoint = _url_of(await self._read_configuration(), "authorization_endpoint")
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self.settings.redirect_url,
                "scope": "openid email profile",
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    def use_state(self, state: str, seconds: float) -> bool:
        """Mark the state of a sign-in, which is valid for this number of seconds, as used. Return False if it was used
        before.

        Otherwise, a stranger with one cookie could make Pharos send any number of codes to the provider.
        """
        now = self._monotonic()
        # The oldest states come first.
        while self._used_states and next(iter(self._used_states.values())) < now:
            del self._used_states[next(iter(self._used_states))]
        if state in self._used_states:
            return False
        self._used_states[state] = now + seconds
        return True

    async def read_person(self, code: str, verifier: str, nonce: str) -> OidcPerson:
        """Exchange the code of a sign-in for its person. Raises `ProviderFailed` and `BadIdToken`."""
        token = await self._exchange(code, verifier)
        try:
            return self._verify(token, await self._read_keys(), nonce)
        except BadIdToken:
            # The provider may have changed its keys meanwhile. Do not read them again at once.
            if self._keys is None or self._keys[0] + _SHORTEST_KEPT_SECONDS > self._monotonic():
                raise
            self._keys = None
            return self._verify(token, await self._read_keys(), nonce)

    def _verify(self, token: str, keys: "KeySet", nonce: str) -> OidcPerson:
        # Imported here and below because most installations have no provider.
        from control_api.oidc.id_token import verify_id_token

        return verify_id_token(
            token,
            keys,
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=nonce,
            seconds=self._clock(),
        )

    async def _exchange(self, code: str, verifier: str) -> str:
        configuration = await self._read_configuration()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect_url,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        methods = configuration.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        client, secret = self.settings.client_id, self.settings.client_secret
        if isinstance(methods, list) and "client_secret_basic" not in methods:
            form |= {"client_id": client, "client_secret": secret}
        else:
            # RFC 6749, 2.3.1: both values are form-encoded first.
            pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        endpoint = _url_of(configuration, "token_endpoint")
        answer = await self._request("POST", endpoint, urlencode(form).encode(), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderFailed("the token endpoint has returned no ID token")
        return token

    async def _read_configuration(self) -> Mapping[str, Any]:
        async with self._reading_at_once():
            now = self._monotonic()
            if self._configuration is None or self._configuration[0] + _KEPT_SECONDS < now:
                url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                found = await self._request("GET", url)
                if found.get("issuer") != self.settings.issuer:
                    raise ProviderFailed(
                        f"its configuration belongs to the issuer {str(found.get('issuer'))[:200]}"
                    )
                self._configuration = now, found
            return self._configuration[1]

    async def _read_keys(self) -> "KeySet":
        url = _url_of(await self._read_configuration(), "jwks_uri")
        async with self._reading_at_once():
            now = self._monotonic()
            if self._keys is None or self._keys[0] + _KEPT_SECONDS < now:
                from joserfc.errors import JoseError
                from joserfc.jwk import KeySet

                document = await self._request("GET", url)
                try:
                    keys = KeySet.import_key_set({"keys": document["keys"]})
                except (JoseError, KeyError, TypeError, ValueError) as error:
                    raise ProviderFailed(f"its keys cannot be read ({type(error).__name__})") from None
                self._keys = now, keys
            return self._keys[1]

    @asynccontextmanager
    async def _reading_at_once(self) -> AsyncIterator[None]:
        """Run one read at a time, and fail at once for 5 s after a failure. Otherwise each sign-in would wait 10 s and
        send a request while the provider is unreachable. Raises `ProviderFailed`."""
        async with self._reading:
            if self._failure is not None and self._monotonic() < self._failure[0]:
                raise ProviderFailed(str(self._failure[1]))
            try:
                yield
            except ProviderFailed as error:
                self._failure = self._monotonic() + _FAILURE_SECONDS, error
                raise

    async def _request(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Return the JSON object in the provider's response: within 10 s, at most 64 KiB, without redirects."""
        try:
            # Open a client for each request: people sign in rarely, and an idle installation should keep no
            # connections.
            async with open_outbound_http(allow_private=self.settings.allow_private) as http:
                reply = await http.request(method, url, body, headers or {}, seconds=_SECONDS)
        except DeliveryFailed as error:
            raise ProviderFailed(str(error)) from None
        if reply.status != 200:
            raise ProviderFailed(f"{reply.host} has answered {reply.status}")
        try:
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except msgspec.DecodeError:
            raise ProviderFailed(
                f"{reply.host} has not answered with a JSON object within {_MAX_BYTES} bytes"
            ) from None


def _url_of(configuration: Mapping[str, Any], name: str) -> str:
    url = configuration.get(name)
    if not isinstance(url, str) or find_http_url_fault(url) is not None:
        raise ProviderFailed(f"its configuration has no usable {name}")
    return url
