"""Events of the JavaScript client are stored exactly once, despite faults on the way."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.javascript_client import JavascriptClient, node_environment, run_node
from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.waits import wait_until


@pytest.fixture(scope="module")
def small_platform(
    client: JavascriptClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlatformProcess]:
    """Yield a platform with small limits: 40 events a batch, 4 KiB an event, 150 events a second."""
    limits = {
        "PHAROS_MAX_BATCH_EVENTS": "40",
        "PHAROS_MAX_EVENT_BYTES": "4096",
        "PHAROS_INGEST_RATE": "150",
        "PHAROS_INGEST_BURST": "150",
    }
    with platform_process(tmp_path_factory.mktemp("small") / "data", env=limits) as running:
        yield running


def variables(platform: PlatformProcess, **more: str) -> dict[str, str]:
    return {
        "PHAROS_URL": f"http://127.0.0.1:{platform.port}",
        "PHAROS_INGEST_KEY": platform.credentials["ingest_key"],
        **more,
    }


def run(app: Path, source: str, platform: PlatformProcess, *, status: int = 0, **more: str) -> Any:
    """Run a module; return what it has printed as JSON."""
    (app / "app.mjs").write_text(source)
    done = run_node(app, "app.mjs", **variables(platform, **more))
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def stored(platform: PlatformProcess, service: str) -> list[dict[str, Any]]:
    """Return the stored events of a service, in the order of their creation."""
    platform.wait_until_consumed()
    rows = platform.query(
        "SELECT type, severity, name, title, details, attributes, route, url, status_code, trace_id, parent_span_id "
        f"FROM pharos.telemetry_events WHERE service = '{service}' ORDER BY timestamp, log_offset, position"
    )
    return [{**row, "attributes": json.loads(row["attributes"] or "{}")} for row in rows]


def test_logs_exceptions_and_requests_are_found_again(platform: PlatformProcess, app: Path) -> None:
    source = """
        import http from 'node:http'
        import { init, log, captureException, close, requestMiddleware } from 'pharos-client'
        const client = init({ service: 'js-all', release: '1.4.2', captureConsole: ['warn'] })
        log.info('order placed', { order: 7, big: 10n })
        console.warn('disk %d%% full', 91)
        class PaymentError extends Error { name = 'PaymentError' }
        captureException(new PaymentError('card refused', { cause: new Error('timeout') }), { 'user.id': 'u-1' })
        const measure = requestMiddleware({ route: () => '/orders/:id' })
        const server = http.createServer((request, response) => measure(request, response, () => {
          response.statusCode = 503
          response.end()
        }))
        await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
        const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
        await fetch(`http://127.0.0.1:${server.address().port}/orders/7?token=secret`, { headers: { traceparent } })
        server.closeAllConnections()
        server.close()
        const isDone = await close()
        console.log(JSON.stringify({ isDone, stats: client.stats() }))
    """
    printed = run(app, source, platform, PHAROS_ENVIRONMENT="production")
    assert printed["isDone"] and (printed["stats"]["stored"], printed["stats"]["waiting"]) == (4, 0)
    log, console, exception, request = stored(platform, "js-all")
    shared = {"deployment.environment.name": "production", "service.version": "1.4.2"}
    assert (log["type"], log["severity"], log["title"]) == ("log", "info", "order placed")
    assert log["attributes"] == {**shared, "order": 7, "big": "10"}
    assert (console["severity"], console["title"]) == ("warning", "disk 91% full")
    assert (exception["type"], exception["name"], exception["title"]) == (
        "exception",
        "PaymentError",
        "card refused",
    )
    assert "app.mjs:" in exception["details"] and "Caused by: Error: timeout" in exception["details"]
    assert (request["name"], request["route"], request["url"], request["status_code"]) == (
        "GET /orders/:id",
        "/orders/:id",
        "/orders/7",
        503,
    )
    assert (request["trace_id"], request["parent_span_id"], request["severity"]) == (
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
        "error",
    )
    groups = platform.query(
        "SELECT kind, message, user, version FROM pharos.exceptions WHERE service = 'js-all'"
    )
    assert groups == [{"kind": "PaymentError", "message": "card refused", "user": "u-1", "version": "1.4.2"}]


def test_refusals_cost_only_the_events_that_are_refused(small_platform: PlatformProcess, app: Path) -> None:
    """Batches over the limit are split (413), the rate is kept (429), and invalid events are left out (422)."""
    source = """
        import { init, log, capture, close } from 'pharos-client'
        const problems = []
        const begun = performance.now()
        const client = init({ service: 'js-refused', onError: (problem) => problems.push(problem) })
        for (let n = 0; n < 300; n += 1) log.info(`event ${n}`)
        log.info('too large for this platform', { text: 'x'.repeat(5000) })
        capture({ type: 'log', title: 'invalid', status_code: 'many' })
        capture({ type: 'nonsense', title: 'invalid' })
        const isDone = await close(60_000)
        const seconds = (performance.now() - begun) / 1000
        console.log(JSON.stringify({ isDone, seconds, stats: client.stats(), problems }))
    """
    printed = run(app, source, small_platform)
    stats = printed["stats"]
    assert printed["isDone"]
    assert (stats["stored"], stats["tooLarge"], stats["invalid"], stats["refused"]) == (300, 1, 2, 0)
    # 300 events are more than the burst and a second's rate, but a busy machine may take longer than that to send them.
    assert stats["retries"] >= 1 or printed["seconds"] > 1
    kinds = {(problem["kind"], problem.get("status")) for problem in printed["problems"]}
    assert {("dropped", 413), ("invalid", 422)} <= kinds
    (invalid,) = [problem for problem in printed["problems"] if problem["kind"] == "invalid"]
    assert {error["field"].partition(".")[2] for error in invalid["errors"]} == {"status_code", "type"}
    titles = [event["title"] for event in stored(small_platform, "js-refused")]
    assert sorted(titles) == sorted(f"event {n}" for n in range(300))


def test_wrong_key_is_reported_and_breaks_nothing(platform: PlatformProcess, app: Path) -> None:
    source = """
        import { init, log, close } from 'pharos-client'
        const problems = []
        const client = init({ ingestKey: 'phr_ing_wrong', retryFirstMs: 1, onError: (problem) => {
          problems.push(problem)
          throw new Error('a hook that fails')
        } })
        log.info('lost')
        await close()
        console.log(JSON.stringify({ stats: client.stats(), problems }))
    """
    printed = run(app, source, platform)
    assert (printed["stats"]["refused"], printed["stats"]["stored"]) == (1, 0)
    assert (
        printed["problems"][-1]["status"] == 401 and "PHAROS_INGEST_KEY" in printed["problems"][-1]["message"]
    )


def test_outage_loses_and_repeats_no_event(client: JavascriptClient, tmp_path: Path, app: Path) -> None:
    """The platform is killed while events arrive, stays away, and comes back."""
    (app / "app.mjs").write_text("""
        import readline from 'node:readline'
        import { init, log, close } from 'pharos-client'
        const client = init({ service: 'js-outage', maxBatchEvents: 20, retryFirstMs: 20, maxQueueEvents: 1_000_000 })
        let made = 0
        const timer = setInterval(() => log.info(`event ${made++}`), 4)
        const lines = readline.createInterface({ input: process.stdin })
        for await (const line of lines) {
          if (line === 'end') break
          console.log(JSON.stringify({ made, ...client.stats() }))
        }
        clearInterval(timer)
        const isDone = await close(60_000)
        console.log(JSON.stringify({ isDone, made, ...client.stats() }))
        process.exit()
    """)
    with platform_process(tmp_path / "data") as platform:
        node = subprocess.Popen(
            ["node", "app.mjs"],
            cwd=app,
            env=node_environment(**variables(platform)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert node.stdin is not None and node.stdout is not None

            def ask(line: str) -> Any:
                assert node.stdin is not None and node.stdout is not None
                node.stdin.write(line + "\n")
                node.stdin.flush()
                return json.loads(node.stdout.readline())

            wait_until(lambda: ask("stats")["stored"] >= 50)
            platform.kill()
            # Several attempts have failed, and events wait.
            before = ask("stats")
            wait_until(
                lambda: (now := ask("stats"))["retries"] >= before["retries"] + 3 and now["waiting"] > 0
            )
            platform.start()
            back = ask("stats")
            wait_until(lambda: ask("stats")["stored"] > back["stored"] + 50)
            ended = ask("end")
            assert node.wait(60) == 0
        finally:
            node.kill()
            node.communicate()
        assert ended["isDone"] and ended["stored"] == ended["made"] > 100
        titles = [event["title"] for event in stored(platform, "js-outage")]
        assert sorted(titles) == sorted(f"event {n}" for n in range(ended["made"]))


@pytest.mark.parametrize(
    ("name", "source", "status", "expected"),
    [
        ("natural", "log.info('last words')", 0, ["last words"]),
        ("exit", "log.info('last words'); process.exit(3)", 3, ["last words"]),
        ("exit-in-close", "log.info('last words'); void close(); process.exit(3)", 3, ["last words"]),
        ("uncaught", "log.info('last words'); throw new TypeError('boom')", 1, ["last words", "boom"]),
        ("rejection", "Promise.reject(new TypeError('boom'))", 1, ["boom"]),
        (
            "sigterm",
            "log.info('last words'); setInterval(() => {}, 1000); process.kill(process.pid, 'SIGTERM')",
            -signal.SIGTERM,
            ["last words"],
        ),
        (
            "own-handler",
            "process.on('SIGTERM', () => { log.info('bye'); process.exit(5) }); setInterval(() => {}, 1000); "
            "process.kill(process.pid, 'SIGTERM')",
            5,
            ["bye"],
        ),
    ],
)
def test_the_end_of_a_process_loses_nothing(
    name: str, source: str, status: int, expected: list[str], platform: PlatformProcess, app: Path
) -> None:
    """The process ends as it would without the client: normally, with its status, or by the signal."""
    head = f"""
        import {{ close, init, log }} from 'pharos-client'
        init({{ service: 'js-{name}', captureUncaught: true }})
    """
    (app / "app.mjs").write_text(head + source)
    done = run_node(app, "app.mjs", **variables(platform))
    assert done.returncode == status, done.stderr
    assert ("TypeError: boom" in done.stderr) == ("boom" in expected)
    assert [event["title"] for event in stored(platform, f"js-{name}")] == expected


def test_a_signal_flushes_the_client_and_the_sdk_and_ends_the_process(
    platform: PlatformProcess, app: Path
) -> None:
    """Both handle the signal, and neither mistakes the other for a handler of the application."""
    (app / "app.mjs").write_text("""
        import { setupOpenTelemetry } from 'pharos-client/opentelemetry'
        import { init, log } from 'pharos-client'
        import { trace } from '@opentelemetry/api'
        setupOpenTelemetry({ serviceName: 'js-both', instrumentations: [] })
        init()
        trace.getTracer('shop').startActiveSpan('order', (span) => {
          log.info('placed')
          span.end()
        })
        setInterval(() => {}, 1000)
        process.kill(process.pid, 'SIGTERM')
    """)
    done = run_node(app, "app.mjs", **variables(platform))
    assert done.returncode == -signal.SIGTERM, done.stderr
    (event,) = stored(platform, "js-both")
    spans = platform.query("SELECT TraceId, SpanName FROM pharos.otel_traces WHERE ServiceName = 'js-both'")
    assert spans == [{"TraceId": event["trace_id"], "SpanName": "order"}]


def test_the_end_of_a_process_waits_a_limited_time_for_the_platform(app: Path) -> None:
    """Nothing listens: the process still ends, with its own status."""
    (app / "app.mjs").write_text("""
        import { init, log } from 'pharos-client'
        init({ exitTimeoutMs: 100 })
        log.info('lost')
        process.exitCode = 4
    """)
    nowhere = {"PHAROS_URL": "http://127.0.0.1:9", "PHAROS_INGEST_KEY": "phr_ing_x"}
    assert run_node(app, "app.mjs", timeout=60, **nowhere).returncode == 4


def test_loggers_and_commonjs(platform: PlatformProcess, app: Path) -> None:
    """Pino's transport, Winston's transport, and the package as CommonJS."""
    (app / "app.cjs").write_text("""
        const { init, close } = require('pharos-client')
        const { winstonTransport } = require('pharos-client/winston')
        const winston = require('winston')
        const pino = require('pino')
        init({ service: 'js-loggers' })
        const shop = winston.createLogger({ transports: [winstonTransport()] })
        shop.warn('low stock', { article: 5 })
        const transport = pino.transport({ target: 'pharos-client/pino', options: { service: 'js-loggers' } })
        pino(transport).error(new Error('no lorry'), 'not shipped')
        transport.on('close', () => close())
        transport.on('ready', () => transport.end())
    """)
    done = run_node(app, "app.cjs", **variables(platform))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    events = {event["title"]: event for event in stored(platform, "js-loggers")}
    assert events["low stock"]["severity"] == "warning"
    assert events["low stock"]["attributes"]["article"] == 5
    assert events["not shipped"]["severity"] == "error"
    assert events["not shipped"]["details"].startswith("Error: no lorry\n    at ")
