"""Events of the client library arrive once and complete at a real platform."""

import contextlib
import json
import logging
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

import pharos_client
from pharos_client.client import Client
from pharos_client.middleware import PharosASGI, PharosWSGI
from pharos_client.settings import read_settings
from tests.clients.python.conftest import RunningPlatform
from tests.clients.python.other_process import record
from tests.support.waits import wait_until

_SOURCE = Path(__file__).parents[3] / "clients" / "python" / "src"


def client_for(platform: RunningPlatform, service: str) -> Client:
    return Client(
        read_settings(platform.url, platform.key, service=service, environment="staging", release="1.4.2")
    )


def run_program(platform: RunningPlatform, service: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter, with the settings of a deployed application."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            "PYTHONPATH": str(_SOURCE),
            "PHAROS_URL": platform.url,
            "PHAROS_INGEST_KEY": platform.key,
            "PHAROS_ENVIRONMENT": "staging",
            "OTEL_SERVICE_NAME": service,
        },
    )


def test_all_fields_arrive(platform: RunningPlatform) -> None:
    client = client_for(platform, "fields")
    assert client.event(
        "request",
        name="GET /orders/{id}",
        route="/orders/{id}",
        url="/orders/7",
        status_code=503,
        duration_ms=12.5,
        severity="error",
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        span_id="00f067aa0ba902b7",
        timestamp=1795000000.125,
        attributes={"plan": "pro", "odd": float("nan"), 3: {1, 2}, "cycle": (cycle := [])},
        payload={"items": [1, 2]},
        details="x" * 1000,
    )
    cycle.append(cycle)
    assert client.close()
    (stored,) = platform.wait_for_events("fields", 1, "*")
    assert stored["name"] == "GET /orders/{id}"
    assert (stored["status_code"], stored["duration_ms"], stored["severity"]) == (503, 12.5, "error")
    assert stored["timestamp"].startswith("2026-11-18 11:06:40.125")
    attributes = json.loads(stored["attributes"])
    assert (attributes["plan"], attributes["odd"], attributes["3"]) == ("pro", "nan", [1, 2])
    assert attributes["deployment.environment.name"] == "staging"
    assert attributes["service.version"] == "1.4.2"
    assert json.loads(stored["payload"]) == {"items": [1, 2]}


def test_the_example_of_the_readme(platform: RunningPlatform) -> None:
    platform.run_json("heartbeat", "create", "readme", "--every", "1d")
    shown = platform.process.run("heartbeat", "show", "readme").stdout
    url = next(word for word in shown.split() if "/ping/phr_png_" in word)
    readme = (_SOURCE.parent / "README.md").read_text()
    example = readme.partition("```python\n")[2].partition("```")[0]
    assert "https://pharos.example/ping/phr_png_…" in example
    example = example.replace("https://pharos.example/ping/phr_png_…", url)
    done = run_program(platform, "readme", f"{example}\nbackup()\nraise RuntimeError('at the end')")
    assert (done.returncode, "RuntimeError: at the end" in done.stderr) == (1, True)
    stored = platform.wait_for_events("readme", 3, "type, title")
    assert sorted(event["type"] for event in stored) == ["exception", "job", "log"]
    assert {event["title"] for event in stored} == {"Payment is late", "", "at the end"}
    runs = ("heartbeat", "runs", "readme", "--json")
    wait_until(lambda: "succeeded" in platform.process.run(*runs).stdout)


def test_events_that_are_too_large_or_wrong_do_not_cost_the_others(platform: RunningPlatform) -> None:
    client = client_for(platform, "large")
    client.log("one", payload="kept")
    assert client.event("log", title="two", payload={"body": "x" * 300_000}, details="y" * 100_000)
    assert not client.event("surprise", title="no such type")
    client.event("log", title="three", status_code="no integer", severity="loud", colour="no such field")
    assert client.event("log", title="four \ud83d", attributes={"surrogate": "\ud83d"})
    assert client.close()
    assert client.dropped == 0
    stored = platform.wait_for_events("large", 4, "title, payload, severity")
    assert [row["title"] for row in stored] == ["one", "two", "three", "four \ufffd"]
    assert "omitted" in stored[1]["payload"]


def test_logging_arrives_with_attributes_and_exceptions(platform: RunningPlatform) -> None:
    client = client_for(platform, "logging")
    logger = logging.getLogger("shop.checkout")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    handler = pharos_client.PharosHandler(client=client)
    logger.addHandler(handler)
    try:
        logger.debug("fine print")
        logger.warning("order %d is late", 7, extra={"order": 7, "object": object()})
        try:
            {}["missing"]
        except KeyError:
            logger.exception("order failed")
        logger.info("too many arguments", 1, 2)
        # The handler ignores records of the library itself.
        handler.handle(logging.LogRecord("pharos_client", 40, "", 0, "recursion", (), None))
    finally:
        logger.removeHandler(handler)
    assert client.close()
    stored = platform.wait_for_events("logging", 5, "type, severity, name, title, details, attributes")
    by_title = {(row["type"], row["title"]): row for row in stored}
    late = by_title["log", "order 7 is late"]
    assert (late["severity"], late["name"]) == ("warning", "shop.checkout")
    attributes = json.loads(late["attributes"])
    assert attributes["order"] == 7 and attributes["object"].startswith("<object object")
    assert by_title["log", "order failed"]["details"].endswith("KeyError: 'missing'\n")
    assert by_title["exception", "'missing'"]["name"] == "KeyError"
    assert by_title["log", "too many arguments (1, 2)"]
    assert by_title["log", "fine print"]["severity"] == "debug"
    issues = platform.run_json("issues")
    assert any("KeyError" in json.dumps(issue) for issue in issues)


def test_program_flushes_at_its_end_and_reports_uncaught_exceptions(platform: RunningPlatform) -> None:
    done = run_program(
        platform,
        "program",
        "import pharos_client, threading\n"
        "client = pharos_client.init(exception_hooks=True)\n"
        "assert pharos_client.init(exception_hooks=True) is client\n"
        "pharos_client.log('at the end')\n"
        "thread = threading.Thread(target=lambda: 1 / 0)\n"
        "thread.start(); thread.join()\n"
        "raise ValueError('uncaught')\n",
    )
    assert done.returncode == 1
    # The former hooks still print.
    assert "ZeroDivisionError" in done.stderr and done.stderr.rstrip().endswith("ValueError: uncaught")
    stored = platform.wait_for_events("program", 3, "type, title, severity, attributes")
    assert {(row["type"], row["title"], row["severity"]) for row in stored} == {
        ("log", "at the end", "info"),
        ("exception", "uncaught", "critical"),
        ("exception", "division by zero", "error"),
    }
    assert {json.loads(row["attributes"])["deployment.environment.name"] for row in stored} == {"staging"}


def test_nothing_happens_without_settings() -> None:
    program = "import pharos_client; pharos_client.log('x'); assert pharos_client.flush(); print('ok')"
    for url in ("", "not an address"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PYTHONPATH": str(_SOURCE), "PHAROS_URL": url},
        )
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
        assert "Nothing is sent" in done.stderr


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_of_multiprocessing_send_their_events(platform: RunningPlatform) -> None:
    client = pharos_client.init(platform.url, platform.key, service="processes")
    client.log("parent")
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(
            target=record, args=(platform.url, platform.key, method)
        )
        process.start()
        process.join(60)
        assert process.exitcode == 0
    assert client.close()
    stored = platform.wait_for_events("processes", 3)
    assert sorted(row["title"] for row in stored) == ["fork", "parent", "spawn"]


def test_outage_loses_and_repeats_no_event(platform: RunningPlatform) -> None:
    client = client_for(platform, "outage")
    client.log("before")
    assert client.flush(30)
    platform.process.kill()
    for number in range(1200):
        client.log(f"during {number}")
    assert not client.flush(0.5)
    platform.process.start()
    client.log("after")
    assert client.flush(90)
    assert client.close() and client.dropped == 0
    stored = platform.wait_for_events("outage", 1202)
    assert len({row["title"] for row in stored}) == 1202


def _wsgi(environ: dict[str, Any], start_response: Any) -> Any:
    if environ["PATH_INFO"] == "/crash":
        raise RuntimeError("broken page")
    start_response("404 Not Found", [])
    return [b"no"]


async def _asgi(scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 201, "headers": []})
    logging.getLogger("inside").warning("in the request")
    await send({"type": "http.response.body", "body": b"made"})


async def test_requests_are_recorded_with_their_trace(platform: RunningPlatform) -> None:
    client = client_for(platform, "requests")
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    wsgi = PharosWSGI(_wsgi, client)
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/missing", "QUERY_STRING": "token=secret"}
    assert b"".join(wsgi({**environ, "HTTP_TRACEPARENT": parent}, lambda *_: None)) == b"no"
    with pytest.raises(RuntimeError, match="broken page"):
        list(wsgi({**environ, "PATH_INFO": "/crash"}, lambda *_: None))

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    handler = pharos_client.PharosHandler(client=client)
    logging.getLogger("inside").addHandler(handler)
    try:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/orders",
            "headers": [(b"traceparent", parent.encode())],
        }
        await PharosASGI(_asgi, client)(scope, None, send)  # type: ignore[arg-type]
    finally:
        logging.getLogger("inside").removeHandler(handler)
    assert len(sent) == 2
    assert client.close()
    columns = "type, name, title, url, status_code, trace_id, span_id, parent_span_id, duration_ms"
    stored = platform.wait_for_events("requests", 5, columns)
    requests = {row["name"]: row for row in stored if row["type"] == "request"}
    missing, crash, order = requests["GET /missing"], requests["GET /crash"], requests["POST /orders"]
    assert (missing["status_code"], missing["url"]) == (404, "/missing")
    assert (missing["trace_id"], missing["parent_span_id"]) == (parent[3:35], parent[36:52])
    assert (crash["status_code"], order["status_code"]) == (500, 201)
    (exception,) = [row for row in stored if row["type"] == "exception"]
    assert (exception["title"], exception["trace_id"]) == ("broken page", crash["trace_id"])
    (line,) = [row for row in stored if row["type"] == "log"]
    assert (line["trace_id"], line["span_id"]) == (parent[3:35], order["span_id"])


async def _get(app: Any, path: str) -> None:
    """Send a GET request to an ASGI application, as a server does."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": "GET", "path": path}
    address = {"server": ("shop.example", 80), "client": ("127.0.0.1", 1)}
    await app({**scope, **address, "headers": [], "query_string": b"secret=1"}, receive, send)


async def test_a_request_of_fastapi_is_named_by_its_route(platform: RunningPlatform) -> None:
    client = client_for(platform, "fastapi")
    app = FastAPI()
    app.add_middleware(PharosASGI, client=client)

    @app.get("/orders/{number}")
    def show_order(number: int) -> int:
        return number // (number - 7)

    for path in ("/orders/8", "/orders/7", "/missing"):
        with contextlib.suppress(ZeroDivisionError):
            await _get(app, path)
    assert client.close()
    stored = platform.wait_for_events("fastapi", 4, "type, name, url, status_code")
    assert sorted(
        (row["name"], row["url"], row["status_code"]) for row in stored if row["type"] == "request"
    ) == [
        ("GET /missing", "/missing", 404),
        ("GET /orders/{number}", "/orders/7", 500),
        ("GET /orders/{number}", "/orders/8", 200),
    ]
