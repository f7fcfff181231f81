"""GitHub is told over its REST API: "Create a commit status", of version 2022-11-28."""

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

_TOKEN = f"{PREFIX}GITHUB_TOKEN"
_ADDRESS = f"{PREFIX}GITHUB_API_URL"
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "Pharos",
}
_SECONDS = 10.0
_PERMISSION = 'the permission "Commit statuses: write" (a classic token: the scope repo:status)'
# Where GitHub limits and does not say for how long: "wait for at least one minute".
_LIMITED_SECONDS = 60.0
_MOST_READ = 64 * 2**10
_MOST_TOLD = 200


class GitHubStatuses:
    """Of GitHub, or of one's own GitHub Enterprise Server. Made by `open_github`."""

    def __init__(self, session: aiohttp.ClientSession, token: str, api_url: str) -> None:
        self._session = session
        self._token = token
        self._api_url = api_url

    async def tell(self, status: CommitStatus) -> None:
        body = {"state": status.state, "context": status.context, "description": status.description}
        if status.target_url is not None:
            body["target_url"] = status.target_url
        try:
            async with self._session.post(self._url(status), json=body, allow_redirects=False) as answer:
                if answer.status == 201:
                    return
                told = self._message(await _read_some(answer))
        except TimeoutError:
            raise StatusUnavailable(f"GitHub has not answered within {_SECONDS:g} s.") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = self._without_token(str(error) or type(error).__name__)
            raise StatusUnavailable(f"GitHub cannot be reached: {reason}") from None
        raise _read_refusal(answer.status, answer.headers, told, status)

    def _url(self, status: CommitStatus) -> URL:
        owner, _, name = status.repository.partition("/")
        if {owner, name} & {"", ".", ".."}:
            raise StatusRefused(f"{status.repository!r} is no repository of GitHub: connect it anew.")
        parts = "/".join(quote(part, safe="") for part in (owner, name, "statuses", status.revision))
        # Encoded already: what is quoted has to stay so.
        return URL(f"{self._api_url}/repos/{parts}", encoded=True)

    def _message(self, body: bytes) -> str:
        """What GitHub says itself, in one short line."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(document, dict):
            return ""
        errors = document.get("errors")
        told = [document, *(errors if isinstance(errors, list) else ())]
        found = [one.get("message") for one in told if isinstance(one, dict)]
        words = self._without_token(": ".join(one for one in found if isinstance(one, str)))
        return "".join(character for character in words if character.isprintable())[:_MOST_TOLD]

    def _without_token(self, text: str) -> str:
        """Whoever answers may repeat what they were sent."""
        return text.replace(self._token, "(the token)")


@asynccontextmanager
async def open_github(token: str, api_url: str) -> AsyncIterator[GitHubStatuses]:
    """Connects to nothing yet. Raises `BadSettings`, which does not repeat the token."""
    _check(token, api_url)
    async with aiohttp.ClientSession(
        headers={**_HEADERS, "Authorization": f"Bearer {token}"},
        timeout=aiohttp.ClientTimeout(total=_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield GitHubStatuses(session, token, api_url.rstrip("/"))


def _check(token: str, api_url: str) -> None:
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise BadSettings(f"{_TOKEN}: a token has printable ASCII characters without blanks")
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
        raise BadSettings(f"{_ADDRESS}: it is written https://api.github.com, or https://HOST/api/v3")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise BadSettings(
            f"{_ADDRESS}: it has to begin with https://, or anybody on the way could read the token"
        )


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _read_some(answer: aiohttp.ClientResponse) -> bytes:
    """Not more than a refusal needs, whoever it is that answers."""
    read = bytearray()
    while len(read) < _MOST_READ and (piece := await answer.content.read(_MOST_READ)):
        read += piece
    return bytes(read)


def _read_refusal(
    code: int, headers: Mapping[str, str], told: str, status: CommitStatus
) -> StatusRefused | StatusUnavailable:
    if code == 429 or (code == 403 and _is_limited(headers, told)):
        return StatusUnavailable("GitHub takes no more for now: its rate limit.", _limited_for(headers))
    if code >= 500 or code == 408:
        return StatusUnavailable(f"GitHub answers {code}.", _read_seconds(headers, "Retry-After"))
    reason = f" ({told})" if told else ""
    return StatusRefused(f"GitHub answers {code}{reason}: {_advise(code, status)}")


def _advise(code: int, status: CommitStatus) -> str:
    match code:
        case 401:
            return f"make a new token, set {_TOKEN} to it, and start again."
        case 403:
            return f"give the token in {_TOKEN} {_PERMISSION} for {status.repository}."
        case 404:
            return (
                f"give the token in {_TOKEN} access to {status.repository}, with {_PERMISSION}; where it has another "
                "name by now, connect it under that."
            )
        case 422:
            return f"see whether {status.repository} has the commit {status.revision}."
        case 301 | 302 | 307 | 308:
            return f"{status.repository} has another name by now: connect it under that."
    return f"see whether {_ADDRESS} is the address of GitHub's API."


def _is_limited(headers: Mapping[str, str], told: str) -> bool:
    # The secondary limits may come with neither header.
    return (
        "Retry-After" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in told.lower()
    )


def _limited_for(headers: Mapping[str, str]) -> float:
    seconds = _read_seconds(headers, "Retry-After")
    if seconds is not None:
        return seconds
    reset = _read_seconds(headers, "x-ratelimit-reset")
    if reset is not None and headers.get("x-ratelimit-remaining") == "0":
        return max(reset - time.time(), 1.0)
    return _LIMITED_SECONDS


def _read_seconds(headers: Mapping[str, str], name: str) -> float | None:
    given = headers.get(name, "")
    return float(given) if given.isascii() and given.isdecimal() else None
