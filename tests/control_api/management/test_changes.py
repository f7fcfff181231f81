"""`GET /v1/changes`: the events of a stream, the causes of its end, and the number of streams."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from sqlalchemy import select, update

from control_api.changes import account_watch, change_streams
from control_api.changes.account_watch import AccountWatch, Follower, StoreSweeps
from control_api.limits.fair_queue import FairQueue
from control_api.limits.report_queue import DEFAULT_REPORT_LIMITS
from control_api.live_logs import stream_log, stream_records
from control_api.operations import reader_check
from control_domain.changes.topics import SCOPE_OF_TOPIC, STORED_TOPICS, TOPICS
from control_domain.tables.accounts import ApiToken, Membership
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import TooManyRequests, Unavailable
from storage_backends.column_store.interface import ColumnStore
from tests.control_api.management.conftest import Api
from tests.support.browsers import open_browser
from tests.support.deploy_platform import ALL_SCOPES, SESSION_COOKIE, add_deployment, add_token

# A test that hangs ends here; nothing is measured.
_PATIENCE = 60.0
# The addresses of the stream of changes, and of the streams of logs.
_KEEPALIVES = (b"event: alive\n", b": nothing new\n")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_watch, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr(account_watch, "STORE_SWEEP_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def _follow(
    api: Api, topics: str = "deployments", *, by: str = "owner", token: str | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    platform = api.platform
    sent = {"Authorization": f"Bearer {token or platform.acme.token(by)}", "Accept": "text/event-stream"}
    url = f"{platform.url}/api/v1/changes?topics={topics}"
    async with platform.http.get(url, headers=sent) as response:
        yield response


async def _next(response: aiohttp.ClientResponse) -> str | None:
    """Return the topic of the next change; None at the end."""
    async with asyncio.timeout(_PATIENCE):
        async for line in response.content:
            if line.startswith(b"data: "):
                document = json.loads(line.removeprefix(b"data: "))
                assert document.keys() == {"topic", "at"}
                return str(document["topic"])
    return None


async def _deploy(api: Api) -> None:
    async with api.platform.sessions() as session, session.begin():
        await add_deployment(session, api.platform.acme, "shop/staging", datetime.now(UTC))


async def test_one_sweep_informs_all_pages_of_an_account(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten pages of an account need only the sweeps of one page. An account without a page is not swept."""
    sweeps: list[int] = []
    read = account_watch.read_marks

    async def counting(session: Any, account_id: int, topics: Any) -> Any:
        sweeps.append(account_id)
        return await read(session, account_id, topics)

    monkeypatch.setattr(account_watch, "read_marks", counting)
    monkeypatch.setattr(account_watch, "SWEEP_SECONDS", 3600.0)
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(_follow(api, "deployments"))
        watch = api.platform.app.state.change_streams._watches[api.platform.acme.account.id]
        # The first sweep has ended. Pages that connect later are ready after the next sweep, which this test runs.
        waiting = [asyncio.create_task(stack.enter_async_context(_follow(api, t))) for t in ["queues"] * 9]
        while len(watch.followers) < 10:
            await asyncio.sleep(0)
        await watch._sweep()
        others = await asyncio.gather(*waiting)
        assert {response.status for response in (first, *others)} == {200}
        await _deploy(api)
        await watch._sweep()
        assert await _next(first) == "deployments"
        assert set(sweeps) == {api.platform.acme.account.id} and len(sweeps) == 3
        api.platform.app.state.change_streams.stop()
        assert [await _next(response) for response in (first, *others)] == [None] * 10
    while not watch.is_over:
        watch._stopping.set()
        await asyncio.sleep(0)


async def test_stream_without_readers_ends_its_sweeps(api: Api) -> None:
    async with _follow(api) as response:
        await _deploy(api)
        assert await _next(response) == "deployments"
    streams = api.platform.app.state.change_streams
    async with asyncio.timeout(_PATIENCE):
        while not all(watch.is_over for watch in streams._watches.values()):
            await asyncio.sleep(0.01)


async def test_changes_of_another_account_are_not_sent(api: Api) -> None:
    other = api.platform.other
    async with _follow(api) as ours, _follow(api, token=other.token()) as theirs:
        async with api.platform.sessions() as session, session.begin():
            await add_deployment(session, other, "shop/staging", datetime.now(UTC))
        assert await _next(theirs) == "deployments"
        watch = api.platform.app.state.change_streams._watches[api.platform.acme.account.id]
        await watch._sweep()
        assert not any(follower.changed for follower in watch.followers)
        assert ours.status == 200


async def test_streams_end_with_the_token(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers all streams: changes, records, and the log of a deployment."""
    monkeypatch.setattr(reader_check, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(stream_log, "_KEEPALIVE_SECONDS", 0.02)
    monkeypatch.setattr(stream_records, "_KEEPALIVE_SECONDS", 0.02)
    monkeypatch.setattr(stream_records, "_POLL_SECONDS", 0.02)
    platform = api.platform
    async with platform.sessions() as session, session.begin():
        token = await add_token(session, platform.acme, platform.acme.people["viewer"], ALL_SCOPES)
        running = await add_deployment(
            session, platform.acme, "shop/staging", datetime.now(UTC), status="deploying"
        )
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    paths = (
        "changes?topics=heartbeats",
        f"environments/{platform.acme.environment('shop/staging').public_id}/logs",
        f"deployments/{running.id}/log",
    )
    async with contextlib.AsyncExitStack() as opened:
        responses = [
            await opened.enter_async_context(
                platform.http.get(f"{platform.url}/api/v1/{path}", headers=headers)
            )
            for path in paths
        ]
        async with asyncio.timeout(_PATIENCE):
            for response in responses:
                assert response.status == 200
                while (await response.content.readline()) not in _KEEPALIVES:
                    pass
            async with platform.sessions() as session, session.begin():
                own = ApiToken.digest == digest_credential(token)
                await session.execute(update(ApiToken).where(own).values(revoked_at=datetime.now(UTC)))
            for response in responses:
                await response.content.read()
    for path in paths:
        assert (await platform.call("GET", f"/v1/{path}", headers=headers)).status == 401


async def test_a_stream_neither_rotates_a_session_nor_follows_it_to_another_account(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The headers of a stream are sent already, so a new secret would not reach the browser, and would sign it out."""
    monkeypatch.setattr(reader_check, "CHECK_SECONDS", 0.02)
    platform, other = api.platform, api.platform.other.account
    browser = await open_browser(platform)
    async with platform.sessions() as session, session.begin():
        owner = platform.acme.people["owner"].id
        session.add(Membership(account_id=other.id, person_id=owner, role="owner"))
    headers = {"Cookie": f"{SESSION_COOKIE}={browser.cookies[SESSION_COOKIE]}", "Accept": "text/event-stream"}
    url = f"{platform.url}/api/v1/changes?topics=heartbeats"
    async with platform.http.get(url, headers=headers) as response, asyncio.timeout(_PATIENCE):
        old = datetime.now(UTC) - timedelta(hours=25)
        async with platform.sessions() as session, session.begin():
            await session.execute(update(SignInSession).values(rotated_at=old, last_used_at=old))
        for _ in range(3):
            while (await response.content.readline()) not in _KEEPALIVES:
                pass
        async with platform.sessions() as session, session.begin():
            found = (await session.execute(select(SignInSession))).scalars().one()
            # An open page does not count as use: otherwise the session would never expire without use.
            assert (found.rotated_at, found.last_used_at, found.previous_digest) == (old, old, None)
            await session.execute(update(SignInSession).values(account_id=other.id))
        await response.content.read()


async def test_streams_are_limited(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_streams, "MAX_STREAMS_PER_PERSON", 1)
    monkeypatch.setattr(change_streams, "MAX_STREAMS_PER_ACCOUNT", 2)
    async with _follow(api) as first:
        async with _follow(api) as second:
            assert (first.status, second.status) == (200, 429)
            assert int(second.headers["Retry-After"]) > 0
        async with _follow(api, by="viewer") as viewer, _follow(api, by="admin") as admin:
            assert (viewer.status, admin.status) == (200, 429)
        monkeypatch.setattr(change_streams, "MAX_STREAMS", 1)
        async with _follow(api, token=api.platform.other.token()) as other:
            assert other.status == 503


async def test_a_person_has_one_limit_in_all_accounts(shared_api: Api) -> None:
    sessions, store = shared_api.platform.sessions, cast(ColumnStore, None)
    streams = change_streams.ChangeStreams(sessions, store, FairQueue(DEFAULT_REPORT_LIMITS))
    for account_id in range(change_streams.MAX_STREAMS_PER_PERSON):
        streams.check_capacity(account_id, 1)
        watch = AccountWatch(sessions, store, streams._store_sweeps, account_id)
        watch.followers.add(Follower(account_id, 1, frozenset()))
        streams._watches[account_id] = watch
    with pytest.raises(TooManyRequests):
        streams.check_capacity(1000, 1)
    streams.check_capacity(1000, 2)
    streams._watches.clear()
    streams.stop()
    # No further sweep begins, so a stream would stay silent until its first check.
    with pytest.raises(Unavailable):
        streams.check_capacity(1000, 2)


async def test_sweeps_of_the_column_store_take_turns_in_the_queue_of_reports() -> None:
    queue = FairQueue(DEFAULT_REPORT_LIMITS)
    sweeps, running, most = StoreSweeps(queue), 0, 0
    for _ in range(DEFAULT_REPORT_LIMITS.max_running):
        await queue.acquire(f"account {_}")

    async def sweep() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    waiting = [asyncio.create_task(sweeps.run(sweep)) for _ in range(50)]
    for _ in range(20):
        await asyncio.sleep(0)
    # Reports use all slots, and one of fifty accounts waits in the queue.
    assert (running, queue.waiting) == (0, 1)
    queue.release("account 0")
    await asyncio.gather(*waiting)
    assert most == 1


async def test_stream_opened_before_its_first_sweep_gets_all_topics(shared_api: Api) -> None:
    """With a slow database the page has loaded meanwhile, and the changes before the sweep are unknown."""
    sessions, store = shared_api.platform.sessions, cast(ColumnStore, None)
    watch = AccountWatch(sessions, store, StoreSweeps(FairQueue(DEFAULT_REPORT_LIMITS)), 1)
    late, early = (Follower(1, 1, frozenset({"deployments", "queues"})) for _ in range(2))
    late.is_open = True
    watch.followers |= {late, early}
    await watch._sweep()
    assert (late.changed, early.changed) == ({"deployments", "queues"}, set())
    await watch._sweep()
    assert late.is_ready and early.changed == set()


async def test_topics_follow_the_scopes(shared_api: Api) -> None:
    async def ask(query: str, scopes: frozenset[str] = ALL_SCOPES) -> Any:
        return await shared_api.call("GET", f"/v1/changes{query}", scopes=scopes, by="stranger")

    everything = (await ask("")).data["topics"]
    assert everything == [topic for topic in TOPICS if topic not in STORED_TOPICS]
    for scope in set(SCOPE_OF_TOPIC.values()):
        topics = {topic for topic in TOPICS if SCOPE_OF_TOPIC[topic] == scope}
        lacking = (await ask("", ALL_SCOPES - {scope})).data["topics"]
        assert topics.isdisjoint(lacking) and {*lacking} | topics >= {*everything}
        named = await ask(f"?topics={','.join(topics)}", ALL_SCOPES - {scope})
        assert named.problem == (403, "missing-scope")
        assert {*(await ask(f"?topics={',%20'.join(topics)}")).data["topics"]} == topics
    assert (await ask("?topics=deployments,weather")).fields == ["topics"]


async def test_topics_of_named_environments_and_sites_follow_the_column_store(api: Api) -> None:
    """Each topic is sent after a new receipt in one of its environments and sites, even after the first one."""
    asked: list[dict[str, Any]] = []
    stored = {"exceptions": 3, "events": 0, "pageviews": 0}
    is_open = asyncio.Event()
    queries: list[str] = []

    async def query(sql: str, parameters: dict[str, Any]) -> Any:
        asked.append(parameters)
        queries.append(sql)
        name = next(name for name in stored if f"pharos.{name.replace('events', 'telemetry_events')}" in sql)
        if name == "exceptions":
            await is_open.wait()
        return SimpleNamespace(rows=[(stored[name], stored[name])])

    api.platform.app.state.change_streams._store = SimpleNamespace(query=query)
    async with _follow(api, "events,pageviews") as response, _follow(api, "deployments"):
        async with asyncio.timeout(_PATIENCE):
            while len(queries) < 4:
                await asyncio.sleep(0.01)
        stored["pageviews"] = 5
        assert await _next(response) == "pageviews"
        stored["events"] = 5
        assert await _next(response) == "events"
        assert not any("pharos.exceptions" in sql for sql in queries)
        acme = api.platform.acme
        assert acme.site is not None
        assert {tuple(each["sites"]) for each in asked} == {(acme.site.id,)}
        environments = {place.environment.public_id for place in acme.places.values()}
        assert {frozenset(each["environments"]) for each in asked} == {frozenset(environments)}
        async with _follow(api, "exceptions") as first:
            # The page was loaded before these rows were counted.
            is_open.set()
            assert await _next(first) == "exceptions"


async def test_sweeps_continue_after_a_failed_sweep(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    read, failures = account_watch.read_marks, [ValueError("a bad row"), ValueError("another")]

    async def fail_first(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await read(*args)

    async with _follow(api) as response, asyncio.timeout(_PATIENCE):
        monkeypatch.setattr(account_watch, "read_marks", fail_first)
        while failures:
            await asyncio.sleep(0.01)
        await _deploy(api)
        assert await _next(response) == "deployments"
