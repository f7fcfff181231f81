"""A batch goes from HTTP to ClickHouse and back."""

import json
import stat
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

import pytest

from pipeline_contracts.topics import ALL_TOPICS
from tests.support.platform_process import PlatformProcess
from tests.support.scrape import check_scrape

_EVENT: dict[str, Any] = {
    "type": "exception",
    "id": "e-1",
    "severity": "critical",
    "name": "ValueError",
    "title": 'Ærlig talt: "no" \\ 🙈',
    "timestamp": "2026-11-20T21:31:54.123456+01:00",
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "span_id": "b7ad6b7169203331",
    "parent_span_id": "00f067aa0ba902b7",
    "route": "/orders/{id}",
    "url": "https://shop.example/orders/7?q=a%20b",
    "service": "shop",
    "status_code": 500,
    "duration_ms": 12.25,
    "fingerprint": "fp-1",
    "affected_users": 3,
    "details": "line 1\nline 2\ttabbed",
    "attributes": {"user": {"plan": "pro"}, "n": 1, "list": [1, None, "x"]},
    "payload": {"cart": {"total": 19.9}},
}


def _stored(platform: PlatformProcess, receipt: str) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        answer = platform.receipt(receipt)
        # The receipt is known from the 202 on.
        assert answer.status == 200
        if answer.json["data"]["status"] != "queued":
            data: dict[str, Any] = answer.json["data"]
            return data
        assert answer.json["data"]["received"] is None
        time.sleep(0.02)
    raise AssertionError("still queued")


def test_every_field_arrives_in_the_table(platform: PlatformProcess) -> None:
    batch = uuid.uuid4().hex
    answer = platform.ingest({"batch_id": batch, "events": [{"type": "log"}, _EVENT]})
    assert answer.status == 202
    data = answer.json["data"]
    assert data == {
        "id": data["id"],
        "batch_id": batch,
        "status": "queued",
        "received": 2,
        "url": f"/api/v1/ingest/receipts/{data['id']}",
    }
    receipt = _stored(platform, data["id"])
    assert {
        k: receipt[k] for k in ("status", "batch_id", "received", "stored", "duplicates", "clamped", "errors")
    } == {
        "status": "stored",
        "batch_id": batch,
        "received": 2,
        "stored": 2,
        "duplicates": 0,
        "clamped": 0,
        "errors": [],
    }
    empty, row = platform.query(
        f"SELECT * FROM pharos.telemetry_events WHERE batch_id = '{batch}' ORDER BY position"
    )
    credentials = platform.credentials
    assert [row[n] for n in ("account_id", "project_id", "environment_id")] == [
        credentials[n] for n in ("account_id", "project_id", "environment_id")
    ]
    assert data["id"].startswith(row["receipt_id"])
    assert row["position"] == 1
    assert row["timestamp"] == "2026-11-20 20:31:54.123456"
    free_form = ("attributes", "payload")
    assert {n: row[n] for n in _EVENT if n not in (*free_form, "timestamp")} == {
        n: _EVENT[n] for n in _EVENT if n not in (*free_form, "timestamp")
    }
    assert [json.loads(row[n]) for n in free_form] == [_EVENT[n] for n in free_form]
    (plan,) = platform.query(
        "SELECT JSONExtractString(attributes, 'user', 'plan') AS plan FROM pharos.telemetry_events "
        f"WHERE batch_id = '{batch}' AND position = 1"
    )
    assert plan == {"plan": "pro"}
    assert empty["timestamp"][:23] == empty["received_at"]
    assert (empty["status_code"], empty["duration_ms"], empty["name"]) == (None, None, "")


def test_a_resend_stores_nothing_and_is_counted(platform: PlatformProcess) -> None:
    batch = {"batch_id": uuid.uuid4().hex, "events": [{"type": "log", "id": str(i)} for i in range(7)]}
    first = platform.ingest(batch).json["data"]["id"]
    assert _stored(platform, first)["stored"] == 7
    assert platform.ingest(batch).json["data"]["id"] == first
    platform.wait_until_consumed()
    receipt = platform.receipt(first).json["data"]
    assert (receipt["status"], receipt["received"], receipt["stored"], receipt["duplicates"]) == (
        "stored",
        7,
        7,
        7,
    )
    (row,) = platform.query(
        f"SELECT count() AS n FROM pharos.telemetry_events WHERE batch_id = '{batch['batch_id']}'"
    )
    assert row == {"n": 7}


def test_metrics_are_served_to_prometheus_but_not_on_the_public_port(platform: PlatformProcess) -> None:
    platform.ingest({"batch_id": uuid.uuid4().hex, "events": [{"type": "log"}]})
    platform.wait_until_consumed()
    for path in ("/metrics", "/metrics/", "//metrics", "/api/metrics", "/health/../metrics", "/%6detrics"):
        assert platform.request("GET", path).status == 404, path
    url = f"http://127.0.0.1:{platform.metrics_port}"
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        samples = check_scrape(answer.read().decode())
    assert samples["pharos_consumer_records_total"] == len(ALL_TOPICS)
    for method, path, status in (("POST", "/metrics", 405), ("GET", "/", 404), ("GET", "/api/v1/me", 404)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url + path, method=method), timeout=60)
        with refused.value as error:
            assert error.code == status


def test_only_the_owner_can_read_the_credentials(platform: PlatformProcess) -> None:
    names = (
        "credentials.json",
        "receipt.key",
        "variables.key",
        "control.sqlite",
        "event-log.sqlite",
        "operator.sock",
    )
    modes = {name: stat.S_IMODE((platform.data / name).stat().st_mode) for name in names}
    assert modes == dict.fromkeys(names, 0o600)
    assert set(platform.credentials) >= {
        "base_url",
        "account_id",
        "api_token",
        "project_id",
        "environment_id",
        "ingest_key",
    }


def test_no_secret_is_in_the_log(platform: PlatformProcess) -> None:
    headers = {
        "Authorization": f"Bearer {platform.credentials['ingest_key']}x",
        "Content-Type": "application/json",
    }
    assert platform.request("POST", "/api/v1/ingest", body=b"{}", headers=headers).status == 401
    lines = [line for line in platform.log.read_text().splitlines() if line.startswith("{")]
    files = [(platform.data / name).read_text().strip() for name in ("receipt.key", "variables.key")]
    secrets = [platform.credentials["api_token"], *files]
    assert not [line for line in lines for secret in [*secrets, "phr_ing_"] if secret in line]
