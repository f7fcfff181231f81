"""Opens the embedded engines, starts the parts on them, and takes all down in the order that loses nothing."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from consumers.assemble import MONITOR_TRANSFORMS, TRANSFORMS, assemble_loop, ignore_step
from consumers.chunk import OnStep, Transform
from consumers.insert_lease import StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumersCollector
from consumers.scan_heartbeats import running_scan
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.first_account.account import ensure_first_account
from control_domain.published_keys import publish_keys
from control_domain.sealing import read_sealing_keys
from deployer.assemble import running_local_deployer
from deployer.drivers.all_drivers import open_process_output
from deployer.identity import Identity, hold_identity
from ingest_edge.app import Edge, edge_runner
from ingest_edge.assemble import open_edge
from ingest_edge.health import Readiness, ReadinessCheck
from ingest_edge.http_server import ServerLimits
from ingest_edge.metrics import new_registry
from ingest_edge.serve_metrics import serve_metrics
from operator_actions.door import Engines
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.interface import EventLog
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.monitor_states.interface import MonitorStates
from storage_backends.monitor_states.sqlite import open_sqlite_monitor_states
from storage_backends.rate_counter.in_process import InProcessRateCounter
from storage_backends.salts.in_file import FileSalts
from wiring.control_plane import assemble_control_plane
from wiring.embedded.asgi_bridge import asgi_handler
from wiring.embedded.data_folder import explained, own_data_folder, read_secret
from wiring.embedded.listeners import bound_listeners, listen
from wiring.embedded.log_metrics import LogMetrics, log_bounds
from wiring.embedded.operator_socket import build_operator_app
from wiring.embedded.sample_repository import ensure_sample_repository

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Platform:
    """The running parts, for those who started them."""

    base_url: str
    credentials: dict[str, Any]
    engines: Engines
    log: EventLog
    apps_port: int
    """Where the applications that it deploys answer."""


_BACKLOG = 1024

_Consumer = tuple[ConsumerLoop, "asyncio.Task[None]"]


@asynccontextmanager
async def run_platform(
    data: Path,
    host: str,
    port: int,
    settings: Settings,
    *,
    apps_port: int | None = None,
    on_step: OnStep = ignore_step,
) -> AsyncIterator[Platform]:
    """The whole platform, from ready to drained. `port` 0 takes a free one; `apps_port`, where the applications that it
    deploys answer, is the 90th behind it.

    Raises `DataFolderInUse`, `DataFolderUnusable`, `PortInUse` and `StorageUnavailable`. What costs least is opened
    first, so that a start that cannot succeed ends at once.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(own_data_folder(data))
        listeners = stack.enter_context(bound_listeners(host, port, apps_port))
        server = listeners.main
        receipt_key = (settings.receipt_key or read_secret(data / "receipt.key")).encode()
        variable_keys = read_sealing_keys(settings.variables_key or read_secret(data / "variables.key"))
        with explained(data / "deployer"):
            identity = stack.enter_context(hold_identity(data / "deployer"))
        with explained(data / "salts.json"):
            salts = FileSalts(data / "salts.json")
        with explained(data / "control.sqlite"):
            sessions = await _open_database(stack, data / "control.sqlite")
            states = await open_sqlite_monitor_states(data / "control.sqlite")
        stack.push_async_callback(states.close)
        with explained(data / "event-log.sqlite"):
            log = await open_sqlite_log(data / "event-log.sqlite", log_bounds(settings))
        stack.push_async_callback(log.close)
        with explained(data / "clickhouse"):
            store = await open_chdb(data / "clickhouse")
            stack.push_async_callback(store.close)
            await apply_schema(store)

        base_url = f"http://{_shown_host(host)}:{server.getsockname()[1]}/api"
        with explained(data / "credentials.json"):
            credentials = await ensure_first_account(sessions, settings, data / "credentials.json", base_url)
        directory = InProcessKeyDirectory()
        await publish_keys(sessions, directory, datetime.now(UTC))

        registry = new_registry()
        registry.register(LogMetrics(log))
        await serve_metrics(stack, settings.metrics_listen, server, registry)
        checks = await _start_consumers(stack, settings, log, store, states, registry, on_step)
        readiness = Readiness({"event_log": log.stalled_reason, **checks})
        credentials = await ensure_sample_repository(sessions, variable_keys, credentials, data)
        # Neither receipts nor what the consumers ask wait for reports.
        report_store = await store.own_handles(readers=settings.max_reports_at_once)
        output = open_process_output(data / "deployer")
        engines = Engines(sessions, directory, report_store, variable_keys, output)
        control = assemble_control_plane(
            settings,
            sessions=sessions,
            directory=directory,
            store=await store.own_handles(readers=2),
            report_store=report_store,
            receipt_key=receipt_key,
            sealing_keys=variable_keys,
        )
        stack.push_async_callback(control.app.state.log_streams.close)
        edge = await stack.enter_async_context(
            open_edge(
                settings,
                directory=directory,
                counter=InProcessRateCounter(),
                slice_seconds=0.0,
                log=log,
                salts=salts,
                receipt_key=receipt_key,
                readiness=readiness,
                registry=registry,
                otherwise=asgi_handler(control.app),
            )
        )
        await _start_deployer(stack, settings, data, listeners.apps, engines, identity, registry, readiness)
        with explained(data / "operator.sock"):
            await _serve_operator(stack, build_operator_app(store, engines), data / "operator.sock")
        # Last: who is told that it is ready finds all of it.
        await _serve(stack, edge, server, readiness, ServerLimits.from_settings(settings))
        # Called before all of that: a live log would hold the shutdown up.
        stack.callback(control.app.state.log_streams.stop)
        await stack.enter_async_context(control.workers.running(is_alone=True))
        yield Platform(base_url, credentials, engines, log, int(listeners.apps.getsockname()[1]))


async def _open_database(stack: AsyncExitStack, path: Path) -> Sessions:
    engine = open_engine(f"sqlite+aiosqlite:///{path}")
    stack.push_async_callback(engine.dispose)
    await upgrade_database(engine)
    return open_sessions(engine)


def _shown_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


async def _serve(
    stack: AsyncExitStack, edge: Edge, server: Any, readiness: Readiness, limits: ServerLimits
) -> None:
    runner = edge_runner(edge, limits)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    # Called before the port closes.
    stack.callback(setattr, readiness, "shutting_down", True)
    listen(server, "--port", _BACKLOG)
    await web.SockSite(runner, server, backlog=_BACKLOG).start()


async def _start_deployer(
    stack: AsyncExitStack,
    settings: Settings,
    data: Path,
    server: socket.socket,
    engines: Engines,
    identity: Identity,
    registry: CollectorRegistry,
    readiness: Readiness,
) -> None:
    """Start what carries deployments out; applications answer on `server`."""
    listen(server, "--apps-port", _BACKLOG)
    assert engines.variable_keys is not None
    deployer = await stack.enter_async_context(
        running_local_deployer(
            settings,
            identity,
            server,
            sessions=engines.sessions,
            keys=engines.variable_keys,
            registry=registry,
            hidden=(data,),
            # The proxy ends with this process, and what runs could not be reached.
            stops=True,
        )
    )
    # Applications that cannot be kept are no reason to take no telemetry.
    readiness.warnings["deployer"] = lambda: deployer.failing
    readiness.warnings["confinement"] = lambda: deployer.missing_confinement


async def _serve_operator(stack: AsyncExitStack, app: web.Application, path: Path) -> None:
    # aiohttp takes a socket file of a process that was killed over by itself.
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    before = os.umask(0o177)
    try:
        await web.UnixSite(runner, str(path)).start()
    finally:
        os.umask(before)


async def _start_consumers(
    stack: AsyncExitStack,
    settings: Settings,
    log: SqliteEventLog,
    store: ColumnStore,
    states: MonitorStates,
    registry: CollectorRegistry,
    on_step: OnStep,
) -> dict[str, ReadinessCheck]:
    """Start a consumer of each topic, and the scan of heartbeats; gives what tells how they are."""
    transforms = {name: make() for name, make in TRANSFORMS.items()}
    transforms |= {name: make_of(states) for name, make_of in MONITOR_TRANSFORMS.items()}
    counters = ConsumersCollector()
    registry.register(counters)
    consumers: dict[str, _Consumer] = {}
    # The embedded engine inserts one at a time.
    clock = StoreClock(store, max_concurrent_inserts=1)
    for name, transform in transforms.items():
        loop = _assemble(settings, transform, log, store, on_step, clock)
        counters.add(loop.metrics)
        consumers[name] = (loop, asyncio.create_task(loop.run(), name=f"{name} consumer"))
    stack.push_async_callback(_drain, list(consumers.values()), settings.drain_seconds)
    scan = await stack.enter_async_context(running_scan(states, registry, _list_partitions))
    checks: dict[str, ReadinessCheck] = {
        f"{name} consumer": partial(_consumer_state, *consumer) for name, consumer in consumers.items()
    }
    return {**checks, "heartbeat scan": lambda: scan.failure_reason}


async def _list_partitions(topic: str) -> Sequence[int]:
    # The embedded log has one for each topic.
    return (0,)


def _assemble(
    settings: Settings,
    transform: Transform,
    log: SqliteEventLog,
    store: ColumnStore,
    on_step: OnStep,
    clock: StoreClock,
) -> ConsumerLoop:
    consumer = SqliteLogConsumer(log, topics.CONSUMER_GROUP, transform.topic)
    return assemble_loop(
        settings, transform, consumer=consumer, log=log, store=store, on_step=on_step, clock=clock
    )


def _consumer_state(loop: ConsumerLoop, working: "asyncio.Task[None]") -> str | None:
    return "the consumer has ended" if working.done() else loop.failure_reason


async def _drain(consumers: Sequence[_Consumer], seconds: float) -> None:
    """Let the consumers finish what was accepted, for some seconds; the log keeps the rest for the next start."""
    for loop, _ in consumers:
        loop.draining = True
    await asyncio.wait([working for _, working in consumers], timeout=seconds)
    for loop, _ in consumers:
        loop.stop.set()
    await asyncio.gather(*(working for _, working in consumers))
