"""The unmodified Sentry SDK for browsers, in a page of another origin than the platform's."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from tests.support.chromium import Chromium, Tab
from tests.support.engines import skip_if_missing
from tests.support.platform_process import PlatformProcess
from tests.support.sentry_javascript import sentry_browser_script
from tests.support.tracked_visit import chromium_or_skip
from tests.support.waits import wait_for_result, wait_until

_PAGE = (
    '<!doctype html><html lang="en"><title>Shop</title><script src="/shop.js"></script><h1>Shop</h1></html>'
)
_SESSION = b'{}\n{"type":"session"}\n{}'


@pytest.fixture(scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    async with chromium_or_skip(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@asynccontextmanager
async def serve_shop(script: Path) -> AsyncIterator[str]:
    """Serve the page with the script; yield its origin."""

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/shop.js":
            return web.FileResponse(script, headers={"Content-Type": "text/javascript"})
        if request.path == "/prices.json":
            return web.json_response({})
        return web.Response(text=_PAGE, content_type="text/html")

    runner = web.ServerRunner(web.Server(respond), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _run_json(platform: PlatformProcess, *command: str) -> Any:
    done = platform.run(*command, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def _make_environment(platform: PlatformProcess, name: str) -> tuple[str, str]:
    """Return the ID of a new environment, and the DSN of its key, which the edge knows."""
    environment = _run_json(platform, "environment", "create", name, "--type", "staging")["id"]
    created = platform.run("key", "create", "--environment", environment)
    dsn = created.stdout.split()[-1]
    url = f"/api/1/envelope/?sentry_key={dsn.removeprefix('http://').partition('@')[0]}"
    wait_until(lambda: platform.request("POST", url, body=_SESSION).status == 200)
    return environment, dsn


def _sent(tab: Tab) -> dict[str, list[str]]:
    """Return the IDs of what the page has sent: events, spans, and texts of log records."""
    found: dict[str, set[str]] = {"events": set(), "spans": set(), "logs": set()}
    for post in tab.posts:
        _, *lines = post.split("\n")
        for header, payload in zip(lines[::2], lines[1::2], strict=False):
            kind = json.loads(header)["type"]
            if kind == "replay_recording":
                # Binary, and the last item of its envelope.
                break
            item = json.loads(payload)
            if kind == "event":
                found["events"].add(item["event_id"])
            elif kind == "transaction":
                found["spans"] |= {
                    item["contexts"]["trace"]["span_id"],
                    *(s["span_id"] for s in item["spans"]),
                }
            elif kind == "span":
                found["spans"] |= {span["span_id"] for span in item["items"]}
            elif kind == "log":
                found["logs"] |= {record["body"] for record in item["items"]}
    return {kind: sorted(ids) for kind, ids in found.items()}


def _stored(platform: PlatformProcess, environment: str) -> dict[str, list[str]]:
    """The same of what is stored, each as often as it is stored."""
    queries = {
        "events": f"SELECT id AS x FROM pharos.telemetry_events WHERE environment_id = '{environment}'",
        "spans": f"SELECT SpanId AS x FROM pharos.otel_traces WHERE EnvironmentId = '{environment}'",
        "logs": f"SELECT Body AS x FROM pharos.otel_logs WHERE EnvironmentId = '{environment}'",
    }
    return {name: sorted(row["x"] for row in platform.query(sql)) for name, sql in queries.items()}


async def _wait(condition: Callable[[], Any]) -> Any:
    """Wait for a condition that blocks."""
    return await wait_for_result(partial(asyncio.to_thread, condition), 60, 0.2)


# `tests/ingest_edge/sentry/test_accept.py` covers the responses, the tests of the SDK for Node.js what is stored.
# Newer SDKs send spans one by one, older ones whole transactions. A header of the page's own needs a preflight request.
@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("stream", {}),
        (
            "static",
            {"traceLifecycle": "static", "transportOptions": {"headers": {"X-Requested-With": "shop"}}},
        ),
    ],
)
async def test_everything_that_a_page_sends_is_found(
    browser: Chromium, platform: PlatformProcess, name: str, options: dict[str, Any]
) -> None:
    with skip_if_missing():
        script = sentry_browser_script()
    environment, dsn = _make_environment(platform, f"browser-{name}")
    for_it = ("--environment", environment)
    async with serve_shop(script) as origin, browser.visitor() as tab:
        await tab.open(f"{origin}/?options={quote(json.dumps(options))}#{quote(dsn)}")
        await tab.evaluate("shop.loadPrices()")
        for step in ("fail", "reject", "report", "log"):
            await tab.evaluate(f"shop.{step}()")
        await _wait(lambda: len(_run_json(platform, "traces", *for_it)) == 1)
        await tab.evaluate("shop.navigate()")
        await _wait(lambda: len(_run_json(platform, "traces", *for_it)) == 2)
        assert await tab.evaluate("shop.flush()")
        await tab.hide()
        await _wait(lambda: _stored(platform, environment) == _sent(tab))
        sent = {kind: len(ids) for kind, ids in _sent(tab).items()}
        assert (sent["events"], sent["logs"]) == (3, 1) and sent["spans"] > 10
        answers = [(kind, status) for kind, status, url in tab.responses if "/api/1/envelope/" in url]
        assert set(answers) == {("Fetch", 200), *([("Preflight", 204)] if options else [])}
        # A page can read why its envelope was refused.
        url = dsn.partition("@")[2].replace("/1", "/api/1/envelope/?sentry_key=phr_ing_x")
        script_of_page = f"fetch('http://{url}', {{method: 'POST', body: '{{}}'}})"
        read = ".then((response) => [response.status, response.headers.get('X-Sentry-Error')])"
        status, reason = await tab.evaluate(script_of_page + read)
        assert (status, bool(reason)) == (401, True)

    issues = {issue["message"]: issue for issue in _run_json(platform, "issues", *for_it)}
    assert set(issues) == {"no price for article 42", "no stock of article 43", "the basket is empty"}
    failed = issues["no price for article 42"]
    assert (failed["type"], failed["services"], failed["affected_users"]) == ("RangeError", ["shop-web"], 1)
    assert failed["frame"].startswith("price (http://localhost")
    assert issues["no stock of article 43"]["frame"].startswith("order (")
    traces = {trace["id"]: trace for trace in _run_json(platform, "traces", *for_it)}
    # The first page view, with the request and the errors; then the navigation.
    assert traces[failed["trace_id"]]["spans"] > 5
    (event,) = platform.query(
        "SELECT payload, attributes FROM pharos.telemetry_events "
        f"WHERE environment_id = '{environment}' AND name = 'RangeError'"
    )
    crumbs = {crumb["category"]: crumb for crumb in json.loads(event["payload"])["breadcrumbs"]}
    assert (crumbs["fetch"]["data"]["url"], crumbs["fetch"]["data"]["status_code"]) == ("/prices.json", 200)
    assert json.loads(event["attributes"])["service.version"] == "1.2.3"
    requests = platform.query(
        "SELECT SpanKind AS kind, TraceId AS trace FROM pharos.otel_traces "
        f"WHERE EnvironmentId = '{environment}' AND startsWith(SpanName, 'GET ')"
    )
    assert requests == [{"kind": "Client", "trace": failed["trace_id"]}]

    # Sessions and replays are dropped, and counted for the owner.
    dropped = (
        "SELECT Attributes['sentry.item_type'] AS type, sum(Value) AS items FROM pharos.otel_metrics_sum "
        f"WHERE EnvironmentId = '{environment}' AND MetricName = 'pharos.sentry.dropped_items' GROUP BY type"
    )
    wanted = {"session", "replay_event", "replay_recording"}
    await _wait(lambda: wanted <= {row["type"] for row in platform.query(dropped)})
