"""Ping URLs with the key of an environment and the name of a heartbeat, at the edge."""

import asyncio
import json
import logging
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from ingest_edge.heartbeat_names import find_heartbeat_by_name
from pipeline_contracts import heartbeat_names, topics
from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from pipeline_contracts.monitors import MonitorMeta, Ping
from pipeline_contracts.rate_limits import RateLimit
from tests.ingest_edge.conftest import RunningEdge
from tests.ingest_edge.test_pings import RID, TAKEN

KIND = CredentialKind.ENVIRONMENT_PING_KEY
NAMES = [
    "backup",
    "Nächtliche Sicherung",
    "a/b",
    "start",
    "50%",
    "a+b",
    "%2F",
    "x" * 100,
    "?create=1",
    "0",
]


async def environment_key(edge: RunningEdge, *, may_create: bool = True, **options: Any) -> str:
    return await edge.issue_key(KIND, may_create=may_create, **options)


async def stored(edge: RunningEdge) -> list[tuple[MonitorMeta, Ping, bytes]]:
    """Return the records of pings: header, value and key in the log."""
    records = await edge.appended(topics.HEARTBEATS)
    return [
        (
            msgspec.msgpack.decode(record.meta, type=MonitorMeta),
            msgspec.json.decode(record.value, type=Ping),
            record.key or b"",
        )
        for record in records
    ]


async def test_every_ending_works_after_a_name(edge: RunningEdge) -> None:
    """The record is the same as for the heartbeat's own ping key."""
    key = await environment_key(edge)
    await edge.name_heartbeat("backup", 7)
    for method, path, body, _ in TAKEN:
        answer = await edge.request(method, f"/ping/{key}/backup{path}", data=body)
        assert (answer.status, answer.body) == (200, b"" if method == "HEAD" else b"OK"), (method, path)
    records = await stored(edge)
    nothing = {"run_id": None, "exit_status": None, "output": None, "name": None, "may_create": False}
    for (meta, ping, log_key), (*_, expected) in zip(records, TAKEN, strict=True):
        assert {**msgspec.to_builtins(ping), "ping_id": None} == {**nothing, **expected, "ping_id": None}
        assert (meta.kind, meta.monitor, meta.environment_id, log_key) == ("ping", 7, "env_1", b"heartbeat/7")
    # `?create=1` creates nothing if the name exists.
    answer = await edge.request("GET", f"/ping/{key}/backup/?create=1")
    assert (answer.status, answer.body, (await stored(edge))[-1][0].monitor) == (200, b"OK", 7)


async def test_names_are_sent_percent_encoded(edge: RunningEdge) -> None:
    key = await environment_key(edge)
    for number, name in enumerate(NAMES, 1):
        await edge.name_heartbeat(name, number)
        for ending in ("", "/fail", "/3"):
            answer = await edge.request("GET", f"/ping/{key}/{quote(name, safe='')}{ending}")
            assert answer.status == 200, (name, ending)
    assert [meta.monitor for meta, *_ in await stored(edge)] == [
        number for number in range(1, len(NAMES) + 1) for _ in range(3)
    ]


async def test_refused_requests(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    """No response or log line has the key."""
    caplog.set_level(logging.DEBUG)
    key, full = await environment_key(edge), await environment_key(edge, may_create=False)
    await edge.name_heartbeat("backup", 7)
    await edge.name_heartbeat("elsewhere", 8, "env_2")
    ping_key = await edge.issue_key(CredentialKind.PING_KEY, monitor="heartbeat/7")
    bad_keys = [
        make_credential(KIND),
        await environment_key(edge, expires_ms=1),
        key[:-1] + "!",
        edge.key,
        key.lower(),
    ]
    refused = [("GET", f"/ping/{bad}/backup?create=1", 404) for bad in bad_keys]
    refused += [
        # The key of one heartbeat works for no other, and the key of an environment needs a name.
        ("GET", f"/ping/{ping_key}/backup", 404),
        *(("GET", f"/ping/{key}{path}", 404) for path in ("", "/", "//start", "?create=1")),
        *(
            ("GET", f"/ping/{key}/{name}", 404)
            for name in ("unknown", "Backup", "elsewhere", "x" * 300, "%ff")
        ),
        ("GET", f"/ping/{key}/unknown?create=0", 404),
        *(
            ("GET", f"/ping/{key}/backup/{action}", 404)
            for action in ("logs", "256", "start/", "%73tart/x", "-1")
        ),
        ("GET", f"/ping/{key}/new/nonsense?create=1", 404),
        *(
            ("GET", f"/ping/{key}/{name}?create=1", 422)
            for name in ("a%20b", "%C3%A4", "-x", "x" * 101, "a%2Fb", "%ff")
        ),
        ("GET", f"/ping/{key}/new?create=1&rid=1", 422),
        ("GET", f"/ping/{key}/backup?rid=1", 422),
        ("GET", f"/ping/{full}/new?create=1", 409),
        *((method, f"/ping/{key}/backup", 405) for method in ("PUT", "DELETE", "OPTIONS")),
    ]
    for method, path, status in refused:
        answer = await edge.request(method, path)
        assert (method, path, answer.status) == (method, path, status)
        assert key.encode() not in answer.body and key not in str(answer.headers)
    unknown = json.loads((await edge.request("GET", f"/ping/{key}/unknown")).body)
    assert "?create=1" in unknown["detail"]
    assert await stored(edge) == []
    assert "phr_epk_" not in caplog.text
    # A key of a full environment still pings.
    assert (await edge.request("GET", f"/ping/{full}/backup?create=1")).status == 200


async def test_the_first_ping_of_a_name_creates_its_heartbeat(edge: RunningEdge) -> None:
    key = await environment_key(edge)
    first = await edge.request("POST", f"/ping/{key}/db.backup/start?create=1&rid={RID}", data=b"begun")
    assert (first.status, first.body, first.headers["Cache-Control"]) == (201, b"Created", "no-store")
    # This edge knows the name immediately, even without the parameter.
    second = await edge.request("GET", f"/ping/{key}/db.backup/1?rid={RID}")
    assert (second.status, second.body) == (200, b"OK")
    (one, ping, log_key), (two, end, other_key) = await stored(edge)
    for meta in (one, two):
        assert (meta.kind, meta.monitor, meta.environment_id) == ("named ping", 0, "env_1")
    assert (ping.name, ping.signal, str(ping.run_id), ping.output) == ("db.backup", "start", RID, "begun")
    assert (end.name, end.signal, end.exit_status) == ("db.backup", "failure", 1)
    assert [ping.may_create, end.may_create] == [True, False]
    assert log_key == other_key == b"heartbeat/env_1/db.backup"
    # Once the name is published, it exists only as long as it stays published.
    await edge.name_heartbeat("db.backup", 9)
    assert (await edge.request("GET", f"/ping/{key}/db.backup")).status == 200
    assert (await stored(edge))[-1][0].monitor == 9
    await edge.directory.revoke(digest_heartbeat_name("env_1", "db.backup"))
    assert (await edge.request("GET", f"/ping/{key}/db.backup")).status == 404


async def test_a_project_creates_a_limited_number_at_once(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit covers all keys and environments of the project together. Pings of existing names are not limited."""
    limit = RateLimit(0.001, 5)
    monkeypatch.setattr("ingest_edge.create_heartbeats.CREATED_RATE", limit)
    assert heartbeat_names.CREATED_RATE.burst <= 100
    keys = [await environment_key(edge) for _ in range(2)]
    await edge.name_heartbeat("known", 7)
    answers = await asyncio.gather(
        *(edge.request("GET", f"/ping/{keys[n % 2]}/new-{n}?create=1") for n in range(20))
    )
    assert sorted(answer.status for answer in answers) == [201] * 5 + [429] * 15
    refused = next(answer for answer in answers if answer.status == 429)
    assert int(refused.headers["Retry-After"]) >= 1
    assert json.loads(refused.body)["type"] == "/problems/too-many-requests"
    assert len(await stored(edge)) == 5
    for path in ("known?create=1", next(f"new-{n}" for n in range(20) if answers[n].status == 201)):
        assert (await edge.request("GET", f"/ping/{keys[0]}/{path}")).status == 200


async def test_slow_creation_takes_one_token(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database is unavailable for an hour, the pings of a few new jobs must not use up the project's
    limit."""
    monkeypatch.setattr("ingest_edge.create_heartbeats.CREATED_RATE", RateLimit(0.001, 2))
    monkeypatch.setattr("ingest_edge.create_heartbeats._REMEMBERED_SECONDS", 0.0)
    key = await environment_key(edge)
    for _ in range(10):
        assert (await edge.request("GET", f"/ping/{key}/first?create=1")).status == 201
    assert (await edge.request("GET", f"/ping/{key}/second?create=1")).status == 201
    assert (await edge.request("GET", f"/ping/{key}/third?create=1")).status == 429


async def test_a_creation_that_cannot_be_stored_is_503(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed creation takes no token: the same ping creates the heartbeat later."""
    monkeypatch.setattr("ingest_edge.create_heartbeats.CREATED_RATE", RateLimit(0.001, 1))
    key = await environment_key(edge)

    async def away(*_: Any) -> None:
        raise StorageUnavailable("away")

    for of, name in ((edge.log, "append"), (edge.directory, "find")):
        with monkeypatch.context() as patched:
            patched.setattr(type(of), name, away)
            answer = await edge.request("GET", f"/ping/{key}/new?create=1")
        assert answer.status == 503 and int(answer.headers["Retry-After"]) >= 1
    assert (await edge.request("GET", f"/ping/{key}/new")).status == 404
    assert (await edge.request("GET", f"/ping/{key}/new?create=1")).status == 201


async def test_a_heartbeat_is_found_by_its_name_alone(edge: RunningEdge) -> None:
    """Other requests with a key of the environment, such as check-ins with an ingest key, use this look-up."""
    await edge.name_heartbeat("backup", 7)
    assert await find_heartbeat_by_name(edge.directory, edge.environment_id, "backup") == 7
    assert await find_heartbeat_by_name(edge.directory, "env_2", "backup") is None
