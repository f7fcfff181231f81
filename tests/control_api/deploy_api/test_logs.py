"""`GET /v1/deployments/{build}/log` as JSON and as an event stream."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import aiohttp
import pytest
from sqlalchemy import delete, insert, update

from control_api.live_logs import log_streams, stream_log
from control_api.operations.reader_check import ReaderCheck
from control_api.request_session import end_transaction
from control_domain.database.engine import Sessions
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL_STATUSES
from pipeline_contracts.errors import Unavailable
from pipeline_contracts.times import format_time
from tests.support.deploy_platform import Platform, add_deployment

NOW = datetime(2026, 11, 20, 12, 0, 0, 123_000, tzinfo=UTC)
# A test that hangs ends here; nothing is measured.
_PATIENCE = 60.0
EVENTS = {"Accept": "text/event-stream"}


class _LetsIn(ReaderCheck):
    """An access check that always lets the reader continue."""

    def __init__(self) -> None:
        self.due_at = float("inf")


@dataclass(slots=True)
class Stream:
    """A log stream as its reader receives it."""

    response: aiohttp.ClientResponse
    events: list[dict[str, Any]] = field(default_factory=list)

    async def next(self) -> dict[str, Any] | None:
        """Return the next event or comment; None at the end."""
        async with asyncio.timeout(_PATIENCE):
            block = b""
            while not block.endswith(b"\n\n"):
                line = await self.response.content.readline()
                if not line:
                    assert not block, block
                    return None
                block += line
        parts = [line.partition(": ")[::2] for line in block.decode().split("\n") if line]
        event: dict[str, Any] = {
            name: json.loads(value) if name == "data" else value for name, value in parts
        }
        self.events.append(event)
        return event

    async def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the next `count` events of this kind, and skip others."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            event = await self.next()
            assert event is not None, f"the end came after {len(found)} of {count} {kind}s"
            found += [event] if event.get("event") == kind else []
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """Return all events until the end, without comments."""
        begun = len(self.events)
        while await self.next() is not None:
            pass
        return [event for event in self.events[begun:] if "event" in event]


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_streams, "_POLL_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def _follow(
    platform: Platform, build: int, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Stream]:
    sent = {"Authorization": f"Bearer {platform.acme.token('viewer')}", **EVENTS, **(headers or {})}
    path = f"{platform.url}/api/v1/deployments/{build}/log"
    async with platform.http.get(path, headers=sent) as response:
        yield Stream(response)


async def _running(platform: Platform, lines: int = 0) -> int:
    async with platform.sessions() as session, session.begin():
        deployment = await add_deployment(session, platform.acme, "shop/staging", NOW, status="deploying")
    if lines:
        await _add(platform, deployment.id, *(f"line {n}" for n in range(1, lines + 1)))
    return deployment.id


async def _add(platform: Platform, build: int, *texts: str) -> list[int]:
    rows = [
        {"deployment_id": build, "at": format_time(NOW), "stream": "stdout", "text": text} for text in texts
    ]
    async with platform.sessions() as session, session.begin():
        made = await session.execute(insert(DeploymentLine).returning(DeploymentLine.id), rows)
        return sorted(made.scalars())


async def _set_status(platform: Platform, build: int, status: str) -> None:
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == build).values(status=status))


async def test_log_returns_the_last_thousand_lines(platform: Platform) -> None:
    build = await _running(platform)
    have = 0
    for count in (0, 1, 1000, 1001, 5000):
        if count > have:
            await _add(platform, build, *(f"line {n}" for n in range(have + 1, count + 1)))
            have = count
        told = (await platform.call("GET", f"/v1/deployments/{build}/log")).data
        lines = told.pop("lines")
        assert told == {"deployment_id": build, "status": "deploying", "truncated": count > 1000}
        assert [line["text"] for line in lines] == [
            f"line {n}" for n in range(max(1, count - 999), count + 1)
        ]
    assert lines[0] == {"at": "2026-11-20T12:00:00.123Z", "stream": "stdout", "text": "line 4001"}


async def test_log_returns_any_text(platform: Platform) -> None:
    texts = [
        '"',
        "\\n",
        "\t\x1b[31mred\x1b[0m\x7f",
        "æøå 漢字 🚀",
        "\u2028",
        "",
        "null",
        '{"a": [1]}',
        "</script>",
    ]
    build = await _running(platform)
    await _add(platform, build, *texts)
    lines = (await platform.call("GET", f"/v1/deployments/{build}/log")).data["lines"]
    assert [line["text"] for line in lines] == texts


async def test_stream_sends_new_lines_until_the_deployment_is_finished(platform: Platform) -> None:
    build = await _running(platform, 2)
    async with _follow(platform, build) as stream:
        assert stream.response.status == 200
        headers = stream.response.headers
        assert headers["Content-Type"].partition(";")[0] == "text/event-stream"
        assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")
        assert len(headers.getall("X-Request-Id")) == 1
        assert [event["data"]["text"] for event in await stream.until("line", 2)] == ["line 1", "line 2"]
        [status] = await stream.until("status")
        assert status == {"event": "status", "data": {"deployment_id": build, "status": "deploying"}}
        texts = ["three", "a\nb\r\n\n: c\ndata: d", "\u2028 ø 🚢 \x1b[31m", ""]
        ids = await _add(platform, build, *texts)
        lines = await stream.until("line", 4)
        assert [line["data"] for line in lines] == [
            {"at": "2026-11-20T12:00:00.123Z", "stream": "stdout", "text": text} for text in texts
        ]
        assert [line["id"] for line in lines] == [str(number) for number in ids]
        await _set_status(platform, build, "running")
        assert (await stream.until("status"))[0]["data"]["status"] == "running"
        async with platform.sessions() as session, session.begin():
            session.add(
                DeploymentLine(deployment_id=build, at=format_time(NOW), stream="system", text="Live.")
            )
            mine = update(Deployment).where(Deployment.id == build)
            await session.execute(mine.values(status="succeeded"))
        last = await stream.rest()
    assert [event["data"].get("text", event["data"].get("status")) for event in last] == [
        "Live.",
        "succeeded",
    ]


@pytest.mark.parametrize("status", sorted(FINAL_STATUSES))
async def test_stream_of_a_finished_deployment_ends_at_once(shared: Platform, status: str) -> None:
    build = await _running(shared, 3)
    await _set_status(shared, build, status)
    async with _follow(shared, build) as stream:
        told = [(event["event"], event.get("id")) for event in await stream.rest()]
    assert [name for name, _ in told] == ["line"] * 3 + ["status"]
    # A reader that has received all lines gets only the status.
    async with _follow(shared, build, {"Last-Event-ID": str(told[2][1])}) as stream:
        assert [event["event"] for event in await stream.rest()] == ["status"]


async def test_last_event_id_resumes_the_stream(platform: Platform) -> None:
    build = await _running(platform, 5000)
    await _set_status(platform, build, "failed")
    async with _follow(platform, build) as stream:
        tail = [event["id"] for event in await stream.rest() if event["event"] == "line"]
    assert len(tail) == 1000
    first = int(tail[-1]) - 4999
    async with _follow(platform, build, {"Last-Event-ID": str(first)}) as stream:
        lines = [event for event in await stream.rest() if event["event"] == "line"]
    assert [line["data"]["text"] for line in lines] == [f"line {n}" for n in range(2, 5001)]
    async with _follow(platform, build, {"Last-Event-ID": tail[-3]}) as stream:
        assert [event.get("id") for event in await stream.rest()] == [*tail[-2:], None]
    for unreadable in ("abc", "-1", "", "1.5", "9" * 30, "1 OR 1=1"):
        async with _follow(platform, build, {"Last-Event-ID": unreadable}) as stream:
            assert len(await stream.rest()) == 1001, unreadable


async def test_each_reader_gets_the_lines_of_its_deployment(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_streams, "MAX_STREAMS_PER_ACCOUNT", 30)
    monkeypatch.setattr(log_streams, "MAX_STREAMS_PER_PERSON", 30)
    build = await _running(platform)
    finished = platform.acme.deployments["production"].id
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(_follow(platform, build)) for _ in range(20)]
        other = await stack.enter_async_context(_follow(platform, finished))
        await asyncio.gather(*(stream.until("status") for stream in streams))
        for n in range(10):
            await _add(platform, build, f"line {n}")
        await _set_status(platform, build, "failed")
        texts = [
            [event["data"].get("text", "") for event in told]
            for told in await asyncio.gather(*(stream.rest() for stream in streams))
        ]
        assert texts == [[*(f"line {n}" for n in range(10)), ""]] * 20
        assert [event["data"].get("text", "") for event in await other.rest()] == [
            "Queued: main.",
            "Live.",
            "",
        ]


async def test_silent_stream_sends_keepalive_comments(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "_KEEPALIVE_SECONDS", 0.01)
    async with _follow(platform, await _running(platform)) as stream:
        await stream.until("status")
        assert await stream.next() == {"": "nothing new"}


async def test_stream_ends_after_its_maximum_time(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "_MAX_STREAM_SECONDS", 0.05)
    monkeypatch.setattr(stream_log, "_KEEPALIVE_SECONDS", 0.01)
    async with _follow(platform, await _running(platform)) as stream:
        await stream.rest()


@pytest.mark.both_databases
async def test_stream_ends_when_the_deployment_is_removed(platform: Platform) -> None:
    build = await _running(platform, 1)
    async with _follow(platform, build) as stream:
        await stream.until("status")
        async with platform.sessions() as session, session.begin():
            await session.execute(delete(DeploymentLine).where(DeploymentLine.deployment_id == build))
            await session.execute(delete(Deployment).where(Deployment.id == build))
        assert await stream.rest() == []


@pytest.mark.parametrize(
    ("accept", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream, */*;q=0.1", True),
        ("application/json, text/event-stream", False),
        ("text/event-stream, application/json;q=0.5", False),
        ("application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
async def test_accept_header_selects_stream_or_json(shared: Platform, accept: str, is_stream: bool) -> None:
    path = f"/v1/deployments/{shared.acme.deployments['staging'].id}/log"
    answer = await shared.call("GET", path, headers={"Accept": accept})
    wanted = "text/event-stream" if is_stream else "application/json"
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, wanted)


async def test_errors_are_problem_documents_for_any_accept_header(shared: Platform) -> None:
    acme = shared.acme
    path = f"/v1/deployments/{acme.deployments['staging'].id}/log"
    narrow = acme.token("owner", frozenset({"deploy:write"}))
    for token, where, problem in (
        ("garbage", path, (401, "invalid-credential")),
        (narrow, path, (403, "missing-scope")),
        (acme.token("stranger"), path, (403, "deploy-not-allowed")),
        (shared.other.token(), path, (404, "not-found")),
        (acme.token(), "/v1/deployments/2000000000/log", (404, "not-found")),
    ):
        assert (await shared.call("GET", where, token=token, headers=EVENTS)).problem == problem


async def _status_of(platform: Platform, build: int, until: asyncio.Event) -> int:
    async with _follow(platform, build) as stream:
        if stream.response.status == 503:
            assert stream.response.headers["Retry-After"] == "5"
            assert stream.response.headers["Content-Type"] == "application/problem+json"
            assert (await stream.response.json(content_type=None))["type"] == "/problems/unavailable"
        else:
            await stream.until("status")
            await until.wait()
        return stream.response.status


async def test_too_many_concurrent_streams_are_503(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds although all requests arrive before the first stream is opened."""
    monkeypatch.setattr(log_streams, "MAX_STREAMS", 3)
    gate = asyncio.Barrier(12)

    async def end_together(session: Any) -> None:
        await end_transaction(session)
        await gate.wait()

    monkeypatch.setattr("control_api.routes.deployments.end_transaction", end_together)
    build, until = await _running(platform), asyncio.Event()
    asking = [asyncio.create_task(_status_of(platform, build, until)) for _ in range(12)]
    async with asyncio.timeout(_PATIENCE):
        for refused in itertools.islice(asyncio.as_completed(asking), 9):
            assert await refused == 503
    # All callers can still read the log as JSON.
    assert (await platform.call("GET", f"/v1/deployments/{build}/log")).status == 200
    until.set()
    assert sorted(await asyncio.gather(*asking)) == [200] * 3 + [503] * 9


async def test_streams_are_limited_per_account(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_streams, "MAX_STREAMS_PER_ACCOUNT", 2)
    build = await _running(platform)
    async with _follow(platform, build) as first, _follow(platform, build) as second:
        for stream in (first, second):
            await stream.until("status")
        async with _follow(platform, build) as third:
            assert third.response.status == 503
        sent = {"Authorization": f"Bearer {platform.other.token()}", **EVENTS}
        theirs = platform.other.deployments["staging"].id
        async with platform.http.get(
            f"{platform.url}/api/v1/deployments/{theirs}/log", headers=sent
        ) as response:
            assert response.status == 200


async def test_each_kind_of_stream_and_each_person_has_a_limit() -> None:
    streams = log_streams.LogStreams(cast(Sessions, None))
    reader = log_streams.Reader
    with contextlib.ExitStack() as stack:
        for person in (1, 2):
            for _ in range(8):
                streams.check_capacity("records", reader(1, person))
                stack.enter_context(streams.occupying("records", reader(1, person)))
        # The first person has eight streams in all accounts together; the account of the third person has sixteen.
        for refused in (reader(1, 1), reader(2, 1), reader(1, 3)):
            with pytest.raises(Unavailable):
                streams.check_capacity("records", refused)
        streams.check_capacity("records", reader(2, 3))
        for kind in ("processes", "deployments"):
            streams.check_capacity(kind, reader(1, 1))
    streams.check_capacity("records", reader(1, 1))


async def test_reader_that_stops_reading_is_disconnected(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "_SEND_TIMEOUT_SECONDS", 0.01)
    streams, held = log_streams.LogStreams(platform.sessions), []
    async with platform.sessions() as session:
        deployment = await session.get_one(Deployment, await _running(platform, 1))

    async def take_nothing(message: Any) -> None:
        held.append(len(streams._followers))
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    live = stream_log._LogStreamResponse(
        platform.sessions, streams, _LetsIn(), deployment.id, log_streams.Reader(1, 1), None
    )
    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    async with asyncio.timeout(_PATIENCE):
        await live(scope, asyncio.Queue().get, take_nothing)
    assert (held, len(streams._followers)) == ([1, 1], 0)
    await streams.close()


async def _until_there_is_room(platform: Platform, build: int) -> None:
    async with asyncio.timeout(_PATIENCE):
        while True:
            async with _follow(platform, build) as stream:
                if stream.response.status == 200:
                    return
            await asyncio.sleep(0.05)


async def test_disconnected_reader_frees_its_stream(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes a reader that has not read a response larger than all buffers."""
    monkeypatch.setattr(log_streams, "MAX_STREAMS", 1)
    build = await _running(platform)
    async with _follow(platform, build) as stream:
        await stream.until("status")
        async with _follow(platform, build) as other:
            assert other.response.status == 503
    await _until_there_is_room(platform, build)
    await _add(platform, build, *("x" * 60_000 for _ in range(300)))
    for _ in range(2):
        await _until_there_is_room(platform, build)


async def test_streams_end_when_the_process_stops(platform: Platform) -> None:
    build = await _running(platform, 1)
    async with _follow(platform, build) as first, _follow(platform, build) as second:
        for stream in (first, second):
            await stream.until("status")
        platform.app.state.log_streams.stop()
        for stream in (first, second):
            assert await stream.rest() == []
    async with _follow(platform, build) as late:
        assert await late.rest() == []


async def test_stop_between_query_and_wait_is_not_missed(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = stream_log._wait_for_change

    async def stop_and_wait(*given: Any) -> None:
        platform.app.state.log_streams.stop()
        await wait(*given)

    monkeypatch.setattr(stream_log, "_KEEPALIVE_SECONDS", 3600.0)
    monkeypatch.setattr(stream_log, "_wait_for_change", stop_and_wait)
    async with _follow(platform, await _running(platform, 1)) as stream:
        await stream.rest()
