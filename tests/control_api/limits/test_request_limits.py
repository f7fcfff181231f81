"""Request limits by account for confirmed tokens, otherwise by address: concurrent and per second."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from control_api.app import build_control_app
from control_api.http.middleware import RequestIdMiddleware, RequestLimitMiddleware
from control_api.limits.request_limits import RequestLimiter, RequestLimits
from control_domain.accounts.operations import create_api_token, create_person
from control_domain.database.engine import Sessions
from control_domain.projects.operations import create_ingest_key
from control_domain.tables.accounts import ApiToken
from control_domain.tables.projects import IngestKey
from pipeline_contracts.client_address import ClientAddresses, parse_trusted_proxies
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit
from tests.support.accounts import make_acme
from tests.support.serve_control import VARIABLE_KEYS

_BOUNDS = RequestLimits(account=RateLimit(1, 4), address=RateLimit(1, 2), max_concurrent=1)
_TOKEN = make_credential(CredentialKind.API_TOKEN)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def _pass(limiter: RequestLimiter, token: str | None, address: str = "192.0.2.1") -> bool:
    """Return True if a request is admitted, and end it."""
    try:
        key = await limiter.admit(None if token is None else digest_credential(token), address)
    except TooManyRequests:
        return False
    limiter.release(key)
    return True


async def _passed(limiter: RequestLimiter, token: str | None, times: int, address: str = "192.0.2.1") -> int:
    return [await _pass(limiter, token, address) for _ in range(times)].count(True)


async def test_all_tokens_of_an_account_share_its_rate() -> None:
    clock = Clock()
    limiter = RequestLimiter(_BOUNDS, clock)
    second, invented = make_credential(CredentialKind.API_TOKEN), make_credential(CredentialKind.API_TOKEN)
    limiter.remember_owner(digest_credential(_TOKEN), "account 1")
    limiter.remember_owner(digest_credential(second), "account 1")
    # Invented tokens count towards the address, together with requests without one.
    assert [await _passed(limiter, token, 2) for token in (None, invented)] == [2, 0]
    assert await _passed(limiter, None, 3, "192.0.2.2") == 2
    assert [await _passed(limiter, token, 3) for token in (_TOKEN, second)] == [3, 1]
    clock.now += 2
    assert [await _passed(limiter, token, 9) for token in (_TOKEN, None)] == [2, 2]


async def test_refusal_has_retry_after() -> None:
    limiter = RequestLimiter(_BOUNDS, Clock())
    assert await _passed(limiter, None, 2) == 2
    with pytest.raises(
        TooManyRequests, match="The address may send 1 requests a second, 2 at once"
    ) as refused:
        await limiter.admit(None, "192.0.2.1")
    assert refused.value.headers == {"Retry-After": "1"}


async def test_excess_concurrent_requests_wait_and_too_many_are_refused() -> None:
    limiter = RequestLimiter(RequestLimits(max_concurrent=1), Clock())
    limiter.remember_owner(digest_credential(_TOKEN), "account 1")
    first = await limiter.admit(digest_credential(_TOKEN), "192.0.2.1")
    waiting = [asyncio.create_task(_pass(limiter, _TOKEN)) for _ in range(8)]
    await asyncio.sleep(0)
    assert not await _pass(limiter, _TOKEN)
    # Other accounts do not wait for these requests.
    assert await _pass(limiter, None)
    limiter.release(first)
    assert await asyncio.gather(*waiting) == [True] * 8


async def test_forgotten_credential_frees_the_slots_of_its_former_owner() -> None:
    limiter = RequestLimiter(RequestLimits(max_concurrent=2), Clock())
    revoked, good = digest_credential(_TOKEN), digest_credential(make_credential(CredentialKind.API_TOKEN))
    for digest in (revoked, good):
        limiter.remember_owner(digest, "account 1")
    running = [await limiter.admit(revoked, "192.0.2.1") for _ in range(2)]
    waiting = asyncio.create_task(limiter.admit(revoked, "192.0.2.1"))
    mine = asyncio.create_task(limiter.admit(good, "192.0.2.2"))
    await asyncio.sleep(0)
    assert not mine.done()
    limiter.forget_owner(revoked)
    async with asyncio.timeout(60):
        admitted = [await waiting, await mine]
        # Another request of the account gets a slot, because only one of these counts towards the account.
        admitted.append(await limiter.admit(good, "192.0.2.2"))
    # The three requests with the forgotten credential count towards their address, which has no free slot until two of
    # them end.
    late = asyncio.create_task(limiter.admit(revoked, "192.0.2.1"))
    limiter.release(running.pop())
    await asyncio.sleep(0)
    assert not late.done()
    limiter.release(running.pop())
    async with asyncio.timeout(60):
        admitted.append(await late)
    for admission in admitted:
        limiter.release(admission)
    assert (limiter._queue.running, limiter._queue.waiting, dict(limiter._in_flight)) == (0, 0, {})


async def _application(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that responds immediately; `/stream` never ends."""

    async def endless() -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.Event().wait()

    is_stream = scope["path"] == "/stream"
    response: Any = StreamingResponse(endless()) if is_stream else JSONResponse({"path": scope["path"]})
    await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Client:
    """Calls an application in this process."""

    app: ASGIApp

    async def ask(self, path: str, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON of the response. Header names have `_` in place of `-`."""
        raw = [(name.replace("_", "-").lower().encode(), text.encode()) for name, text in headers.items()]
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": raw}
        scope |= {
            "client": ("127.0.0.1", 1),
            "query_string": b"",
            "root_path": "",
            "state": {},
            "scheme": "http",
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        told = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
        return sent[0]["status"], told, json.loads(b"".join(one["body"] for one in sent[1:]))

    async def statuses(self, path: str, times: int, **headers: str) -> list[int]:
        return [(await self.ask(path, **headers))[0] for _ in range(times)]


def _client(limiter: RequestLimiter, addresses: str | None = None) -> Client:
    trusted = ClientAddresses(()) if addresses is None else parse_trusted_proxies(addresses)
    return Client(RequestIdMiddleware(RequestLimitMiddleware(_application, limiter, trusted)))


async def test_refused_request_gets_a_problem_with_request_id() -> None:
    client = _client(RequestLimiter(_BOUNDS, Clock()))
    assert await client.statuses("/api/v1/accounts", 2) == [200, 200]
    status, headers, problem = await client.ask("/api/v1/accounts", X_Request_Id="mine")
    assert (status, problem["status"], problem["type"]) == (429, 429, "/problems/too-many-requests")
    assert headers["content-type"] == "application/problem+json"
    assert (headers["x-request-id"], headers["retry-after"]) == ("mine", "1")
    # Health and webhooks are never refused here.
    for path in ("/health/ready", "/api/repositories/1/webhook", "/api/git-app/webhook"):
        assert await client.statuses(path, 9) == [200] * 9


async def test_each_client_behind_a_trusted_proxy_has_its_own_limits() -> None:
    client = _client(RequestLimiter(_BOUNDS, Clock()), "127.0.0.1")
    for address in ("192.0.2.1", "2001:db8::1"):
        assert await client.statuses("/", 3, X_Forwarded_For=address) == [200, 200, 429]
    # The same /64 network.
    assert await client.statuses("/", 1, X_Forwarded_For="2001:db8::2") == [429]
    believing_nobody = _client(RequestLimiter(_BOUNDS, Clock()))
    told = [(await believing_nobody.ask("/", X_Forwarded_For=f"192.0.2.{n}"))[0] for n in range(3)]
    assert told == [200, 200, 429]


async def test_stream_counts_only_until_its_response_starts() -> None:
    limiter = RequestLimiter(RequestLimits(max_concurrent=1), Clock())
    layer = RequestLimitMiddleware(_application, limiter, ClientAddresses(()))
    begun = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            begun.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": "/stream", "headers": [], "client": ("192.0.2.1", 1)}
    stream = asyncio.create_task(layer(scope, receive, send))
    await begun.wait()
    assert await _pass(limiter, None)
    stream.cancel()
    await asyncio.gather(stream, return_exceptions=True)
    assert await _pass(limiter, None)


async def test_only_confirmed_tokens_get_the_limit_of_their_account(sessions: Sessions) -> None:
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        account, _, _ = await make_acme(session, now)
        person = await create_person(session, account, "Ada", "ada@example.com", "owner", now)
        token = await create_api_token(session, account, person, "x", ["account:read"], now)
    limiter = RequestLimiter(RequestLimits(RateLimit(0.001, 50), RateLimit(0.001, 4), 4), Clock())
    store: Any = None
    app = build_control_app(
        sessions, store, b"a receipt key of the test suite, 32+", VARIABLE_KEYS, request_limiter=limiter
    )
    client = Client(app)

    async def ask(credential: str) -> int:
        return (await client.ask("/api/v1/account", Authorization=f"Bearer {credential}"))[0]

    assert [await ask(token) for _ in range(9)] == [200] * 9
    invented = [make_credential(CredentialKind.API_TOKEN) for _ in range(5)]
    assert [await ask(one) for one in invented] == [401, 401, 401, 429, 429]
    assert await ask(token) == 200


async def test_revoked_credential_does_not_use_its_owners_limits(sessions: Sessions) -> None:
    now = datetime.now(UTC)
    async with sessions() as session, session.begin():
        account, _, environment = await make_acme(session, now)
        person = await create_person(session, account, "Ada", "ada@example.com", "owner", now)
        leaked, good = [
            await create_api_token(session, account, person, name, ["account:read"], now) for name in "ab"
        ]
        old_key, key = [await create_ingest_key(session, environment, now) for _ in range(2)]
    bounds = RequestLimits(RateLimit(0.001, 4), RateLimit(0.001, 1000), 4)
    store: Any = None
    client = Client(
        build_control_app(
            sessions,
            store,
            b"a receipt key of the test suite, 32+",
            VARIABLE_KEYS,
            request_limiter=RequestLimiter(bounds, Clock()),
        )
    )

    async def ask(path: str, credential: str, times: int) -> list[int]:
        return await client.statuses(path, times, Authorization=f"Bearer {credential}")

    token_path, key_path = "/api/v1/account", "/api/v1/ingest/receipts/none"
    for credential in (leaked, good):
        assert await ask(token_path, credential, 1) == [200]
    for credential in (old_key, key):
        assert await ask(key_path, credential, 1) == [404]
    async with sessions() as session, session.begin():
        for table, secret in ((ApiToken, leaked), (IngestKey, old_key)):
            revoked = update(table).where(table.digest == digest_credential(secret)).values(revoked_at=now)
            await session.execute(revoked)
    assert await ask(token_path, leaked, 20) == [401] * 20
    assert await ask(key_path, old_key, 20) == [401] * 20
    # The first refusal of each credential counted towards the owner, who may have four concurrent requests with all
    # credentials together.
    assert await ask(token_path, good, 1) == [200]
    assert await ask(key_path, key, 3) == [404, 429, 429]
