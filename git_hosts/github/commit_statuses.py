"""Sends commit statuses to GitHub: "Create a commit status" of its REST API, version 2022-11-28."""

import ipaddress
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from git_hosts.commit_statuses import CommitStatus, StatusRefused, StatusUnavailable
from pipeline_contracts.settings import PREFIX, BadSettings

_TOKEN_SETTING = f"{PREFIX}GITHUB_TOKEN"
_URL_SETTING = f"{PREFIX}GITHUB_API_URL"
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "Pharos",
}
_TIMEOUT_SECONDS = 10.0
_PERMISSION = 'the permission "Commit statuses: write" (a classic token: the scope repo:status)'
# GitHub's rule for a rate limit without a time: "wait for at least one minute".
_DEFAULT_RETRY_SECONDS = 60.0
_MAX_READ_BYTES = 64 * 2**10
_MAX_MESSAGE_LENGTH = 200


class GitHubStatusClient:
    """Client of github.com or a GitHub Enterprise Server. Created by `open_github_status_client`."""

    def __init__(self, session: aiohttp.ClientSession, token: str, api_url: str) -> None:
        self._session = session
        self._token = token
        self._api_url = api_url

    async def send_status(self, status: CommitStatus) -> None:
        body = {"state": status.state, "context": status.context, "description": status.description}
        if status.target_url is not None:
            body["target_url"] = status.target_url
        try:
            async with self._session.post(
                self._make_url(status), json=body, allow_redirects=False
            ) as response:
                if response.status == 201:
                    return
                message = self._read_message(await _read_beginning(response))
        except TimeoutError:
            raise StatusUnavailable(f"GitHub has not answered within {_TIMEOUT_SECONDS:g} s.") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = self._redact_token(str(error) or type(error).__name__)
            raise StatusUnavailable(f"GitHub cannot be reached: {reason}") from None
        raise _make_error(response.status, response.headers, message, status)

    def _make_url(self, status: CommitStatus) -> URL:
        owner, _, name = status.repository.partition("/")
        if {owner, name} & {"", ".", ".."}:
            raise StatusRefused(
                f"{status.repository!r} is not a repository of GitHub. Connect the repository again."
            )
        parts = "/".join(quote(part, safe="") for part in (owner, name, "statuses", status.revision))
        # Already percent-encoded: yarl would decode some of the quoted characters.
        return URL(f"{self._api_url}/repos/{parts}", encoded=True)

    def _read_message(self, body: bytes) -> str:
        """Return GitHub's own message as one short line; empty if the body has none."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(document, dict):
            return ""
        errors = document.get("errors")
        parts = [document, *(errors if isinstance(errors, list) else ())]
        messages = [part.get("message") for part in parts if isinstance(part, dict)]
        text = self._redact_token(": ".join(message for message in messages if isinstance(message, str)))
        return "".join(character for character in text if character.isprintable())[:_MAX_MESSAGE_LENGTH]

    def _redact_token(self, text: str) -> str:
        """Return the text without the token: a response may repeat the request."""
        return text.replace(self._token, "(the token)")


@asynccontextmanager
async def open_github_status_client(token: str, api_url: str) -> AsyncIterator[GitHubStatusClient]:
    """Open the client without connecting. Raises `BadSettings`, which does not repeat the token."""
    _check_settings(token, api_url)
    async with aiohttp.ClientSession(
        headers={**_HEADERS, "Authorization": f"Bearer {token}"},
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield GitHubStatusClient(session, token, api_url.rstrip("/"))


def _check_settings(token: str, api_url: str) -> None:
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise BadSettings(f"{_TOKEN_SETTING}: a token has only printable ASCII characters, without spaces")
    try:
        parts = urlsplit(api_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if (
        parts.scheme not in ("http", "https")
        or not host
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise BadSettings(f"{_URL_SETTING}: must be https://api.github.com, or https://HOST/api/v3")
    if parts.scheme == "http" and not _is_loopback(host):
        raise BadSettings(
            f"{_URL_SETTING}: must begin with https://, because otherwise the token could be read in transit"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _read_beginning(response: aiohttp.ClientResponse) -> bytes:
    """Read at most about `_MAX_READ_BYTES`: enough for an error message."""
    body = bytearray()
    while len(body) < _MAX_READ_BYTES and (chunk := await response.content.read(_MAX_READ_BYTES)):
        body += chunk
    return bytes(body)


def _make_error(
    code: int, headers: Mapping[str, str], message: str, status: CommitStatus
) -> StatusRefused | StatusUnavailable:
    if code == 429 or (code == 403 and _is_rate_limited(headers, message)):
        return StatusUnavailable(
            "GitHub's rate limit is used up. A later attempt may succeed.", _read_retry_after(headers)
        )
    if code >= 500 or code == 408:
        return StatusUnavailable(f"GitHub answers {code}.", _read_seconds(headers, "Retry-After"))
    reason = f" ({message})" if message else ""
    return StatusRefused(f"GitHub answers {code}{reason}: {_advise(code, status)}")


def _advise(code: int, status: CommitStatus) -> str:
    match code:
        case 401:
            return f"create a new token, set {_TOKEN_SETTING} to it, and restart Pharos."
        case 403:
            return f"give the token in {_TOKEN_SETTING} {_PERMISSION} for {status.repository}."
        case 404:
            return (
                f"give the token in {_TOKEN_SETTING} access to {status.repository}, with {_PERMISSION}; "
                "if it was renamed, connect it under its new name."
            )
        case 422:
            return f"check that {status.repository} has the commit {status.revision}."
        case 301 | 302 | 307 | 308:
            return f"{status.repository} was renamed: connect it under its new name."
    return f"check that {_URL_SETTING} is the address of GitHub's API."


def _is_rate_limited(headers: Mapping[str, str], message: str) -> bool:
    # Responses about GitHub's secondary rate limits may have neither header.
    return (
        "Retry-After" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in message.lower()
    )


def _read_retry_after(headers: Mapping[str, str]) -> float:
    seconds = _read_seconds(headers, "Retry-After")
    if seconds is not None:
        return seconds
    reset = _read_seconds(headers, "x-ratelimit-reset")
    if reset is not None and headers.get("x-ratelimit-remaining") == "0":
        return max(reset - time.time(), 1.0)
    return _DEFAULT_RETRY_SECONDS


def _read_seconds(headers: Mapping[str, str], name: str) -> float | None:
    value = headers.get(name, "")
    return float(value) if value.isascii() and value.isdecimal() else None
