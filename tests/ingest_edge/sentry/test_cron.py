"""Check-ins in envelopes and at cron URLs become signals of the heartbeat of that name."""

import logging
from typing import Any

import msgspec
import pytest

from ingest_edge.sentry.accept import MAX_CHECK_INS
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from pipeline_contracts.monitors import MonitorMeta
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry
from tests.ingest_edge.conftest import WIDE, RunningEdge, StartEdge
from tests.ingest_edge.sentry.test_accept import send

RUN = "0190f3c27b5e7a108c3d2f4b6a8c0e1f"


async def name_heartbeat(edge: RunningEdge, name: str = "nightly") -> None:
    digest = digest_heartbeat_name(edge.environment_id, name)
    entry = KeyEntry(
        digest,
        CredentialKind.HEARTBEAT_NAME,
        "acc_1",
        "prj_1",
        edge.environment_id,
        WIDE,
        monitor="heartbeat/7",
    )
    await edge.directory.publish(entry)


async def signals(edge: RunningEdge) -> list[tuple[str, str, str | None]]:
    """Return (kind, signal, run) of each record in the log."""
    found = []
    for record in await edge.appended(topics.HEARTBEATS):
        meta = msgspec.msgpack.decode(record.meta, type=MonitorMeta)
        assert (record.key, meta.monitor, meta.environment_id) == (b"heartbeat/7", 7, "env_1")
        value = msgspec.json.decode(record.value)
        run = value.get("run_id")
        found.append((meta.kind, value["signal"], run and run.replace("-", "")))
    return found


async def test_check_ins_become_signals(edge: RunningEdge) -> None:
    await name_heartbeat(edge)
    for status in ("in_progress", "ok", "error"):
        check_in = {"monitor_slug": "nightly", "status": status, "check_in_id": RUN, "duration": 2.5}
        assert (await send(edge, ("check_in", check_in))).status == 200
    assert (await send(edge, ("check_in", {"monitor_slug": "nightly", "status": "ok"}))).status == 200
    other = await send(edge, ("check_in", {"monitor_slug": "unknown", "status": "ok"}))
    assert other.status == 200
    assert edge.sentry.dropped.total == {("check_in", "no_heartbeat"): 1}
    assert await signals(edge) == [
        ("heartbeat", "start", RUN),
        ("heartbeat", "success", RUN),
        ("heartbeat", "failure", RUN),
        ("ping", "success", None),
    ]
    assert edge.metrics.signals_accepted == 4


async def test_cron_urls(edge: RunningEdge) -> None:
    await name_heartbeat(edge, "nightly report")
    url = f"/api/1/cron/nightly%20report/{edge.key}"
    for method, path, expected in [
        ("GET", f"{url}/?status=in_progress&check_in_id={RUN}", ("heartbeat", "start", RUN)),
        ("GET", f"{url}?status=ok&check_in_id={RUN}&duration=3&environment=x", ("heartbeat", "success", RUN)),
        ("POST", f"{url}/?status=error", ("ping", "failure", None)),
        ("GET", f"{url}/?status=ok&check_in_id={'0' * 32}", ("ping", "success", None)),
    ]:
        answer = await edge.request(method, path)
        assert answer.status == 200, path
        assert answer.document() == ({} if expected[2] is None else {"id": RUN})
        assert (await signals(edge))[-1] == expected
    body = b'{"status":"in_progress","check_in_id":"%s","monitor_config":{}}' % RUN.encode()
    assert (await edge.request("POST", f"{url}/", data=body)).status == 200
    header = {"X-Sentry-Auth": f"Sentry sentry_key={edge.key}"}
    assert (
        await edge.request("GET", "/api/1/cron/nightly%20report/?status=ok", headers=header)
    ).status == 200
    assert len(await signals(edge)) == 6


async def test_invalid_cron_urls_are_refused(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await name_heartbeat(edge)
    unknown = make_credential(CredentialKind.INGEST_KEY)
    for method, path, status in [
        ("GET", f"/api/1/cron/nightly/{unknown}/?status=ok", 401),
        ("GET", "/api/1/cron/nightly/?status=ok", 401),
        ("GET", f"/api/1/cron/nightly/{edge.key}/", 400),
        ("POST", f"/api/1/cron/nightly/{edge.key}/", 400),
        ("GET", f"/api/1/cron/nightly/{edge.key}/?status=odd", 400),
        ("GET", f"/api/1/cron/weekly/{edge.key}/?status=ok", 404),
        ("DELETE", f"/api/1/cron/nightly/{edge.key}/?status=ok", 405),
    ]:
        answer = await edge.request(method, path)
        assert (answer.status, list(answer.document())) == (status, ["detail"]), path
        written = answer.body.decode() + str(answer.headers) + caplog.text
        assert edge.key not in written and unknown not in written
    large: dict[str, Any] = {"data": b'{"status":"ok","x":"%s"}' % (b"x" * 20_000)}
    assert (await edge.request("POST", f"/api/1/cron/nightly/{edge.key}/", **large)).status == 413
    assert await signals(edge) == []


async def test_an_envelope_carries_few_check_ins_without_tokens(start_edge: StartEdge) -> None:
    """A signal costs the pipeline a row. Without a limit, one small envelope could carry a thousand signals."""
    edge = await start_edge(rate=RateLimit(1.0, 10), clock=lambda: 0.0)
    await name_heartbeat(edge)
    many = [
        ("check_in", {"monitor_slug": "nightly", "status": "in_progress", "check_in_id": f"{number:032x}"})
        for number in range(1, 1001)
    ]
    assert (await send(edge, *many)).status == 200
    assert len(await edge.appended(topics.HEARTBEATS)) == MAX_CHECK_INS
    assert (await send(edge, *many)).status == 429


async def test_check_ins_take_no_tokens(start_edge: StartEdge) -> None:
    edge = await start_edge(rate=RateLimit(1.0, 1), clock=lambda: 0.0)
    await name_heartbeat(edge)
    check_in = ("check_in", {"monitor_slug": "nightly", "status": "ok", "check_in_id": RUN})
    assert (await send(edge, ("session", {}))).status == 200
    assert (await send(edge, ("session", {}))).status == 429
    assert (await send(edge, check_in)).status == 200
    assert (await edge.request("GET", f"/api/1/cron/nightly/{edge.key}/?status=ok")).status == 200
