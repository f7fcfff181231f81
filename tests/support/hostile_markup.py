"""Sends markup in every text that a stranger can send: telemetry, page views, pings, webhooks, names."""

import hashlib
import hmac
import json
import time
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

from tests.support.platform_process import PlatformProcess

MARK = "<img src=x onerror=window.pwned=1>"
"""Markup that runs a script if a page does not escape it."""
TEXT = f"{MARK}\"'><script>window.pwned=1</script>"
_TRACE, _SPAN = "ab" * 16, "cd" * 8


@dataclass(frozen=True, slots=True)
class Hostile:
    """The objects with markup in them."""

    project: str
    environment: str
    site: int
    heartbeat: int
    queue: int
    repository: int
    trace: str = _TRACE


class _Api:
    def __init__(self, platform: PlatformProcess) -> None:
        self._platform = platform
        self.token: str = platform.credentials["api_token"]

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        headers: dict[str, str] | None = None,
    ) -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token or self.token}"}
        answer = self._platform.request(method, path, body=data, headers={**sent, **(headers or {})})
        assert answer.status < 400, (path, answer.status, answer.json)
        return answer.json.get("data", answer.json) if isinstance(answer.json, dict) else answer.json


def send_hostile_markup(platform: PlatformProcess) -> Hostile:
    """Create a project with an environment, monitors and a site, with markup in all texts."""
    api = _Api(platform)
    project = api.send(
        "POST",
        "/api/v1/projects",
        {"name": TEXT[:100], "slug": "hostile"},
    )
    path = f"/api/v1/projects/{project['id']}"
    environment = api.send(
        "POST", f"{path}/environments", {"name": TEXT[:100], "slug": "hostile", "type": "production"}
    )
    inside = f"/api/v1/environments/{environment['id']}"
    key = api.send("POST", f"{inside}/ingest-keys", {})["key"]
    _send_telemetry(api, key)
    heartbeat = api.send("POST", f"{inside}/heartbeats", {"name": TEXT[:100], "period_seconds": 3600})
    ping = f"http://127.0.0.1:{platform.port}{heartbeat['ping_key']['urls']['failure']}"
    with urllib.request.urlopen(ping, data=TEXT.encode(), timeout=60) as answer:
        assert answer.status == 200
    queue = api.send("POST", f"{inside}/queues", {"name": TEXT[:100]})
    site = api.send(
        "POST",
        f"{path}/sites",
        {"name": TEXT[:100], "domains": ["http://hostile.example"], "timezone": "UTC"},
    )
    _send_visits(api, site["tracker_id"])
    repository = platform.credentials["repository"]
    _send_webhooks(api, repository)
    return Hostile(
        project["id"], environment["id"], site["id"], heartbeat["id"], queue["id"], repository["id"]
    )


def _send_telemetry(api: _Api, key: str) -> None:
    common = {"service": TEXT[:100], "trace_id": _TRACE, "attributes": {TEXT: TEXT}}
    events = [
        {
            "type": "request",
            "name": TEXT,
            "route": TEXT,
            "url": f"https://x.example/{TEXT}",
            "duration_ms": 9,
        },
        {"type": "query", "name": TEXT, "title": TEXT, "duration_ms": 3},
        {"type": "job", "name": TEXT, "duration_ms": 3},
        {"type": "log", "severity": "error", "name": TEXT, "title": TEXT, "details": TEXT},
        {"type": "metric", "name": TEXT[:100], "payload": {"value": 4}},
        {
            "type": "exception",
            "name": TEXT,
            "title": TEXT,
            "details": f"{TEXT}\n  at {TEXT} (/{TEXT}.js:1:1)",
        },
    ]
    batch = {"batch_id": uuid.uuid4().hex, "events": [{**common, **event} for event in events]}
    api.send("POST", "/api/v1/ingest", batch, token=key)
    now = time.time_ns()
    attributes = [{"key": TEXT, "value": {"stringValue": TEXT}}]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": TEXT}}, *attributes]}
    exception = {
        "timeUnixNano": str(now),
        "name": "exception",
        "attributes": [
            {"key": f"exception.{name}", "value": {"stringValue": TEXT}}
            for name in ("type", "message", "stacktrace")
        ],
    }
    span = {
        "traceId": _TRACE,
        "spanId": _SPAN,
        "name": TEXT,
        "kind": 2,
        "startTimeUnixNano": str(now - 10**7),
        "endTimeUnixNano": str(now),
        "attributes": attributes,
        "events": [exception, {**exception, "name": TEXT}],
        "status": {"code": 2, "message": TEXT},
    }
    spans = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}
    api.send("POST", "/api/v1/otlp/v1/traces", spans, token=key)
    record = {
        "timeUnixNano": str(now),
        "severityText": TEXT,
        "severityNumber": 17,
        "body": {"stringValue": TEXT},
        "traceId": _TRACE,
        "spanId": _SPAN,
        "attributes": attributes,
    }
    logs = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}
    api.send("POST", "/api/v1/otlp/v1/logs", logs, token=key)
    point = {"timeUnixNano": str(now), "asDouble": 1, "attributes": attributes}
    metric = {"name": TEXT, "unit": TEXT, "description": TEXT, "gauge": {"dataPoints": [point]}}
    metrics = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
    api.send("POST", "/api/v1/otlp/v1/metrics", metrics, token=key)


def _send_visits(api: _Api, tracker_id: str) -> None:
    view = {
        "id": str(uuid.uuid4()),
        "type": "pageview",
        "path": f"/{TEXT}",
        "referrer_host": TEXT,
        "utm_source": TEXT,
        "utm_medium": TEXT,
        "utm_campaign": TEXT,
        "browser": TEXT[:60],
        "os": TEXT[:60],
    }
    names = ("Outbound Link: Click", "File Download", "404", TEXT)
    events = [
        {
            "id": str(uuid.uuid4()),
            "type": "event",
            "path": f"/{TEXT}",
            "properties": {"name": name, "url": f"https://x.example/{TEXT}"},
        }
        for name in names
    ]
    headers = {"Origin": "http://hostile.example", "User-Agent": f"Mozilla/5.0 {TEXT} Firefox/140.0"}
    api.send("POST", f"/api/v1/collect/{tracker_id}", {"events": [view, *events]}, headers=headers)


def _send_webhooks(api: _Api, repository: dict[str, Any]) -> None:
    body = json.dumps(
        {
            "ref": f"refs/heads/{MARK}".replace(" ", "-"),
            "before": "1" * 40,
            "after": "2" * 40,
            "created": False,
            "deleted": False,
            "head_commit": {"id": "2" * 40, "message": TEXT},
            "pusher": {"name": TEXT},
            "repository": {"id": 4107, "full_name": "lanterns/shop", "html_url": "https://x.example/"},
        }
    ).encode()
    digest = hmac.new(repository["secret"].encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": f"{uuid.uuid4()}",
        "X-Hub-Signature-256": f"sha256={digest}",
    }
    api.send("POST", f"/api/repositories/{repository['id']}/webhook", body, headers=headers)
