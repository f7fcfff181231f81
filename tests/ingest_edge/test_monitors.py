"""Heartbeats and queues at the edge: accepted and refused requests. A 202 means that the record is in the log."""

import asyncio
import json
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.monitors import MonitorMeta
from pipeline_contracts.rate_limits import RateLimit
from tests.ingest_edge.conftest import Answer, RunningEdge, StartEdge

RUN = "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e1f"
HEARTBEAT = "/api/v1/heartbeats/7"
SNAPSHOTS = "/api/v1/queues/3/snapshots"
WORKERS = "/api/v1/queues/3/workers"
SIGNAL = {"run_id": RUN, "signal": "start"}
SNAPSHOT = {"snapshot_id": RUN, "observed_at": "2026-11-20T12:00:00.5Z", "pending": 5}
UPDATE = {"worker_id": RUN, "sequence": 1, "status": "idle"}
GOOD: dict[str, dict[str, Any]] = {HEARTBEAT: SIGNAL, SNAPSHOTS: SNAPSHOT, WORKERS: UPDATE}


async def post(
    edge: RunningEdge, path: str, body: Any, key: str, headers: Mapping[str, str] | None = None
) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "Authorization": f"Bearer {key}", **(headers or {})}
    return await edge.request("POST", path, data=data, headers=sent)


async def keys(edge: RunningEdge) -> dict[str, str]:
    """Return a key for each path."""
    heartbeat = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="heartbeat/7")
    queue = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="queue/3")
    return {HEARTBEAT: heartbeat, SNAPSHOTS: queue, WORKERS: queue}


@pytest.mark.parametrize("path", GOOD)
async def test_accepted_request_is_in_the_log(edge: RunningEdge, path: str) -> None:
    answer = await post(edge, path, GOOD[path], (await keys(edge))[path])
    assert (answer.status, answer.document()) == (202, {"data": {"status": "accepted"}})
    assert answer.headers["X-Request-Id"]
    topic = topics.HEARTBEATS if path == HEARTBEAT else topics.QUEUES
    (record,) = await edge.appended(topic)
    assert json.loads(record.value) == GOOD[path]
    meta = msgspec.msgpack.decode(record.meta, type=MonitorMeta)
    kind = {HEARTBEAT: "heartbeat", SNAPSHOTS: "snapshot", WORKERS: "worker"}[path]
    assert (meta.kind, meta.monitor, meta.environment_id) == (kind, 7 if path == HEARTBEAT else 3, "env_1")
    assert record.key == (b"heartbeat/7" if path == HEARTBEAT else b"queue/3")


async def test_signal_with_half_an_emoji_is_stored_so_that_the_consumer_can_decode_it(
    edge: RunningEdge,
) -> None:
    """Jobs may send their output in members that the edge ignores."""
    body = {**SIGNAL, "output": "done \ud83d"}
    assert (await post(edge, HEARTBEAT, body, (await keys(edge))[HEARTBEAT])).status == 202
    (record,) = await edge.appended(topics.HEARTBEATS)
    assert msgspec.json.decode(record.value) == {**SIGNAL, "output": "done \ufffd"}


MORE = [
    (HEARTBEAT, {**SIGNAL, "signal": "success", "tomorrow": {}}),
    (HEARTBEAT, {**SIGNAL, "run_id": RUN.upper(), "signal": "failure"}),
    (SNAPSHOTS, {**SNAPSHOT, "delayed": 0, "reserved": 1, "failed": None, "oldest_wait_seconds": 2**62}),
    (SNAPSHOTS, {**SNAPSHOT, "observed_at": "2026-11-20t12:00:00z"}),
    (WORKERS, {**UPDATE, "status": "busy", "job_id": RUN}),
    (WORKERS, {**UPDATE, "status": "stopped", "job_id": None}),
]


@pytest.mark.parametrize(("path", "body"), MORE)
async def test_accepts_optional_and_unknown_members(edge: RunningEdge, path: str, body: Any) -> None:
    assert (await post(edge, path, body, (await keys(edge))[path])).status == 202


BAD: list[tuple[str, Any, list[str]]] = [
    (HEARTBEAT, b"", [""]),
    (HEARTBEAT, b"{", [""]),
    (HEARTBEAT, b"[]", [""]),
    (HEARTBEAT, {}, ["run_id", "signal"]),
    (HEARTBEAT, {"run_id": None, "signal": None}, ["run_id", "signal"]),
    (HEARTBEAT, {**SIGNAL, "run_id": "17"}, ["run_id"]),
    (HEARTBEAT, {**SIGNAL, "run_id": 17}, ["run_id"]),
    (HEARTBEAT, {**SIGNAL, "signal": "done"}, ["signal"]),
    (HEARTBEAT, {"run_id": "x", "signal": 1}, ["run_id", "signal"]),
    (SNAPSHOTS, {}, ["snapshot_id", "observed_at", "pending"]),
    (SNAPSHOTS, {**SNAPSHOT, "observed_at": "2026-11-20T12:00:00+00:00"}, ["observed_at"]),
    (SNAPSHOTS, {**SNAPSHOT, "observed_at": "2026-11-20T12:00:00"}, ["observed_at"]),
    (SNAPSHOTS, {**SNAPSHOT, "observed_at": 5}, ["observed_at"]),
    (SNAPSHOTS, {**SNAPSHOT, "pending": -1}, ["pending"]),
    (SNAPSHOTS, {**SNAPSHOT, "pending": 1.5}, ["pending"]),
    (SNAPSHOTS, {**SNAPSHOT, "pending": "5"}, ["pending"]),
    (SNAPSHOTS, {**SNAPSHOT, "pending": 2**63}, ["pending"]),
    (SNAPSHOTS, {**SNAPSHOT, "delayed": -1, "failed": True}, ["delayed", "failed"]),
    (WORKERS, {}, ["worker_id", "sequence", "status"]),
    (WORKERS, {**UPDATE, "sequence": 0}, ["sequence"]),
    (WORKERS, {**UPDATE, "sequence": 2**63}, ["sequence"]),
    (WORKERS, {**UPDATE, "status": "asleep"}, ["status"]),
    (WORKERS, {**UPDATE, "status": "busy"}, ["job_id"]),
    (WORKERS, {**UPDATE, "status": "busy", "job_id": None}, ["job_id"]),
    (WORKERS, {**UPDATE, "job_id": "x"}, ["job_id"]),
]


@pytest.mark.parametrize(("path", "body", "fields"), BAD, ids=lambda value: str(value)[:70])
async def test_every_invalid_field_is_listed(
    edge: RunningEdge, path: str, body: Any, fields: list[str]
) -> None:
    answer = await post(edge, path, body, (await keys(edge))[path])
    assert (answer.status, answer.fields()) == (422, fields)
    assert await edge.appended(topics.HEARTBEATS) == await edge.appended(topics.QUEUES) == []


async def test_key_works_for_one_monitor(edge: RunningEdge) -> None:
    """A key for another monitor gets 404. An ingest key, or no key, gets 401."""
    of = await keys(edge)
    for path, key, status in [
        ("/api/v1/heartbeats/8", of[HEARTBEAT], 404),
        ("/api/v1/heartbeats/07", of[HEARTBEAT], 404),
        ("/api/v1/heartbeats/7/", of[HEARTBEAT], 404),
        ("/api/v1/heartbeats/x", of[HEARTBEAT], 404),
        ("/api/v1/heartbeats/", of[HEARTBEAT], 404),
        ("/api/v1/heartbeats/3", of[SNAPSHOTS], 404),
        (HEARTBEAT, of[SNAPSHOTS], 404),
        (SNAPSHOTS, of[HEARTBEAT], 404),
        ("/api/v1/queues/4/snapshots", of[SNAPSHOTS], 404),
        ("/api/v1/queues/3", of[SNAPSHOTS], 404),
        ("/api/v1/queues/3/other", of[SNAPSHOTS], 404),
        (HEARTBEAT, edge.key, 401),
        (HEARTBEAT, "phr_mon_" + "a" * 38, 401),
        (HEARTBEAT, "", 401),
    ]:
        answer = await post(edge, path, SIGNAL, key)
        assert (path, answer.status) == (path, status)
    assert await edge.appended(topics.HEARTBEATS) == []


async def test_headers_are_checked_before_the_body(edge: RunningEdge) -> None:
    key = (await keys(edge))[HEARTBEAT]
    assert (await post(edge, HEARTBEAT, b"{", key, {"Content-Type": "text/plain"})).status == 415
    assert (await post(edge, HEARTBEAT, b"{", key, {"Content-Encoding": "br"})).status == 415
    assert (await post(edge, HEARTBEAT, b" " * 17_000, key)).status == 413
    answer = await edge.request("GET", HEARTBEAT, headers={"Authorization": f"Bearer {key}"})
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_signals_take_no_tokens(start_edge: StartEdge) -> None:
    """The signal of a job must be accepted even if its account exceeds the ingest rate."""
    edge = await start_edge()
    key = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="heartbeat/7", limit=RateLimit(0.001, 1))
    for _ in range(5):
        assert (await post(edge, HEARTBEAT, SIGNAL, key)).status == 202


async def test_a_full_disk_is_503(edge: RunningEdge) -> None:
    key = (await keys(edge))[HEARTBEAT]
    await edge.fill_disk()
    noisy = [{**SIGNAL, "noise": secrets.token_hex(8000)} for _ in range(20)]
    answers = [await post(edge, HEARTBEAT, body, key) for body in noisy]
    refused = [answer for answer in answers if answer.status == 503]
    assert refused and all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    await edge.free_disk()
    assert (await post(edge, HEARTBEAT, SIGNAL, key)).status == 202


# More signals than connections; ten thousand would differ only in number.
@pytest.mark.parametrize("signals", [1_500, pytest.param(10_000, marks=pytest.mark.full)])
async def test_all_heartbeats_at_the_top_of_the_hour(edge: RunningEdge, signals: int) -> None:
    """Signals of all heartbeats arrive at the same time over many connections. Each is stored exactly once."""
    key = (await keys(edge))[HEARTBEAT]
    runs = [str(uuid.uuid4()) for _ in range(signals)]
    waiting = iter(runs)

    async def send_signals() -> None:
        for run in waiting:
            assert (await post(edge, HEARTBEAT, {"run_id": run, "signal": "success"}, key)).status == 202

    await asyncio.gather(*(send_signals() for _ in range(100)))
    stored = [json.loads(record.value)["run_id"] for record in await edge.appended(topics.HEARTBEATS)]
    assert sorted(stored) == sorted(runs)
