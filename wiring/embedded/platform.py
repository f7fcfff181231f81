"""Runs the whole platform in one process: opens the embedded engines, starts each component, and shuts down in reverse
order so that no accepted event is lost."""

import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from consumers.assemble import ignore_step
from consumers.chunk import OnStep
from control_domain.database.changes import count_change
from control_domain.database.engine import Sessions, open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.first_account.account import ensure_first_account
from control_domain.published_keys import ChangedKeys, publish_changes, publish_keys
from control_domain.repositories.local_folders import ANY_FOLDER
from control_domain.sealing import SealingKeys, read_sealing_keys
from deployer.assemble import running_local_deployer
from deployer.drivers.all_drivers import open_process_output
from deployer.identity import Identity, hold_identity
from ingest_edge.app import Edge, edge_runner
from ingest_edge.assemble import open_edge
from ingest_edge.health import Readiness
from ingest_edge.http_server import ServerLimits
from ingest_edge.metrics import new_registry
from ingest_edge.serve_metrics import serve_metrics
from notifications.channels.outbound_http.resolver import Endpoint
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb
from storage_backends.event_log.interface import EventLog
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory
from storage_backends.monitor_states.interface import MonitorStates
from storage_backends.monitor_states.sqlite import open_sqlite_monitor_states
from storage_backends.rate_counter.in_process import InProcessRateCounter
from storage_backends.salts.in_file import FileSalts
from wiring.control_plane import assemble_control_plane, check_settings
from wiring.embedded.asgi_bridge import asgi_handler
from wiring.embedded.backups.schedule import running_schedule
from wiring.embedded.backups.serve import serve_backup
from wiring.embedded.backups.snapshot import Engines
from wiring.embedded.consumers import start_consumers
from wiring.embedded.data_folder import explain_file_errors, lock_data_folder, read_secret
from wiring.embedded.listeners import bound_listeners, listen
from wiring.embedded.log_metrics import LogMetrics, log_bounds
from wiring.embedded.operator_socket import build_operator_app, serve_operator_socket
from wiring.embedded.sample_repository import ensure_sample_repository
from wiring.operator_door import OperatorEngines

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Platform:
    """A running platform, for its callers."""

    base_url: str
    credentials: dict[str, Any]
    sessions: Sessions
    directory: KeyDirectory
    log: EventLog
    apps_port: int
    """The port on which deployed applications are served."""
    private_endpoints: set[Endpoint]
    """The addresses of this machine, with their ports, that notification channels may reach."""


@dataclass(frozen=True, slots=True)
class _Storage:
    """The open files, databases and keys of the data folder."""

    receipt_key: bytes
    sealing_keys: SealingKeys
    identity: Identity
    salts: FileSalts
    sessions: Sessions
    states: MonitorStates
    log: SqliteEventLog
    store: ChdbColumnStore


_BACKLOG = 1024
OnPhase = Callable[[str], None]


def _ignore_phase(_description: str) -> None:
    pass


DATABASE = "control.sqlite"
"""The file whose absence marks a data folder as new."""


@asynccontextmanager
async def run_platform(
    data: Path,
    host: str,
    port: int,
    settings: Settings,
    *,
    apps_port: int | None = None,
    before_first_start: Callable[[], None] = lambda: None,
    on_phase: OnPhase = _ignore_phase,
    on_step: OnStep = ignore_step,
) -> AsyncIterator[Platform]:
    """Run the platform until the context ends, then drain it. Port 0 takes a free one. `apps_port` serves deployed
    applications; the default is `port` + 90. `before_first_start` is called in a data folder that has no database yet.
    `on_phase` is called with a description of each phase of the start when it begins.

    Raises `BadSettings`, `DataFolderInUse`, `DataFolderUnusable`, `PortInUse` and `StorageUnavailable`. The cheapest
    checks come first, so that a start that cannot succeed fails at once.
    """
    check_settings(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_data_folder(data))
        listeners = stack.enter_context(bound_listeners(host, port, apps_port))
        if not (data / DATABASE).exists():
            with explain_file_errors(data):
                before_first_start()
        storage = await _open_storage(stack, data, settings, on_phase)
        directory = InProcessKeyDirectory()
        base_url = f"http://{_reachable_host(host)}:{listeners.main.getsockname()[1]}/api"
        with explain_file_errors(data / "credentials.json"):
            credentials = await ensure_first_account(
                storage.sessions, settings, data / "credentials.json", base_url
            )
        await publish_keys(storage.sessions, directory, datetime.now(UTC))

        on_phase("Starting the edge, the consumers, the control plane and the deployer")
        registry = new_registry()
        registry.register(LogMetrics(storage.log))
        await serve_metrics(stack, settings.metrics_listen, listeners.main, registry)
        checks = await start_consumers(
            stack,
            settings,
            log=storage.log,
            store=storage.store,
            states=storage.states,
            registry=registry,
            on_step=on_step,
        )
        readiness = Readiness({"event_log": storage.log.stalled_reason, **checks})
        credentials = await ensure_sample_repository(
            storage.sessions, storage.sealing_keys, credentials, data
        )
        # Separate handles: neither receipts nor the queries of the consumers wait for reports.
        report_store = await storage.store.own_handles(readers=settings.max_reports_at_once)
        output = open_process_output(data / "deployer")
        control = assemble_control_plane(
            settings,
            sessions=storage.sessions,
            directory=directory,
            store=await storage.store.own_handles(readers=2),
            report_store=report_store,
            receipt_key=storage.receipt_key,
            sealing_keys=storage.sealing_keys,
            process_output=output,
            # Users of `pharos up` connect repositories of their own machine, so all folders are allowed.
            default_folders=ANY_FOLDER,
            data_folder=data,
        )
        registry.register(control.workers.alert_scan)
        # Workers run from before the port opens until it is closed, so that work queued by requests is done while
        # requests are served.
        await stack.enter_async_context(control.workers.running(is_alone=True))
        stack.push_async_callback(control.app.state.log_streams.close)
        stack.push_async_callback(control.app.state.change_streams.close)
        edge = await stack.enter_async_context(
            open_edge(
                settings,
                directory=directory,
                counter=InProcessRateCounter(),
                slice_seconds=0.0,
                log=storage.log,
                salts=storage.salts,
                receipt_key=storage.receipt_key,
                readiness=readiness,
                registry=registry,
                otherwise=asgi_handler(control.app),
            )
        )
        local_edge = base_url.removesuffix("/api")
        await _start_deployer(
            stack, settings, data, listeners.apps, storage, registry, readiness, local_edge, directory
        )
        with explain_file_errors(data / "operator.sock"):
            address = (settings.public_url or local_edge).rstrip("/")
            engines = OperatorEngines(storage.sessions, directory, storage.sealing_keys, address)
            copied = Engines(data, storage.log, storage.store)
            app = build_operator_app(storage.store, engines, partial(serve_backup, copied, settings))
            await serve_operator_socket(stack, app, data / "operator.sock")
            await stack.enter_async_context(running_schedule(copied, settings))
        # Started after everything else: the platform is complete when it reports ready.
        await _serve(stack, edge, listeners.main, readiness, ServerLimits.from_settings(settings))
        # Called before the server stops, because an open stream would delay the stop.
        stack.callback(control.app.state.log_streams.stop)
        stack.callback(control.app.state.change_streams.stop)
        apps_port = int(listeners.apps.getsockname()[1])
        yield Platform(
            base_url,
            credentials,
            storage.sessions,
            directory,
            storage.log,
            apps_port,
            control.workers.private_endpoints,
        )


async def _open_storage(stack: AsyncExitStack, data: Path, settings: Settings, on_phase: OnPhase) -> _Storage:
    """Open and migrate everything in the data folder. Raises `DataFolderUnusable` and `StorageUnavailable`."""
    receipt_key = (settings.receipt_key or read_secret(data / "receipt.key")).encode()
    sealing_keys = read_sealing_keys(settings.variables_key or read_secret(data / "variables.key"))
    with explain_file_errors(data / "deployer"):
        identity = stack.enter_context(hold_identity(data / "deployer"))
    with explain_file_errors(data / "salts.json"):
        salts = FileSalts(data / "salts.json")
    on_phase("Opening the databases")
    with explain_file_errors(data / DATABASE):
        sessions = await _open_database(stack, data / DATABASE)
        states = await open_sqlite_monitor_states(data / DATABASE, partial(count_change, sessions))
    stack.push_async_callback(states.close)
    with explain_file_errors(data / "event-log.sqlite"):
        log = await open_sqlite_log(data / "event-log.sqlite", log_bounds(settings))
    stack.push_async_callback(log.close)
    on_phase("Opening the column store")
    with explain_file_errors(data / "clickhouse"):
        store = await open_chdb(data / "clickhouse")
        stack.push_async_callback(store.close)
        await apply_schema(store)
    return _Storage(receipt_key, sealing_keys, identity, salts, sessions, states, log, store)


async def _open_database(stack: AsyncExitStack, path: Path) -> Sessions:
    engine = open_engine(f"sqlite+aiosqlite:///{path}")
    stack.push_async_callback(engine.dispose)
    await upgrade_database(engine)
    return open_sessions(engine)


def _reachable_host(host: str) -> str:
    """Return the host for URLs of a listening address."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


async def _start_deployer(
    stack: AsyncExitStack,
    settings: Settings,
    data: Path,
    server: socket.socket,
    storage: _Storage,
    registry: CollectorRegistry,
    readiness: Readiness,
    local_edge: str,
    directory: KeyDirectory,
) -> None:
    """Start the deployer; its proxy serves applications on `server`."""

    async def publish_key(digest: bytes) -> None:
        await publish_changes(storage.sessions, directory, ChangedKeys(keys=[digest]), datetime.now(UTC))

    listen(server, "--apps-port", _BACKLOG)
    deployer = await stack.enter_async_context(
        running_local_deployer(
            settings,
            storage.identity,
            server,
            sessions=storage.sessions,
            keys=storage.sealing_keys,
            registry=registry,
            hidden=(data,),
            # The proxy ends with this process: running applications would be unreachable.
            stops=True,
            local_edge=local_edge,
            publish_key=publish_key,
        )
    )
    # Reported as warnings, not failed checks: ingest works although applications cannot run.
    readiness.warnings["deployer"] = lambda: deployer.failing
    readiness.warnings["confinement"] = lambda: deployer.missing_confinement
    readiness.warnings["output_logs"] = lambda: deployer.describe_stopped_output()


async def _serve(
    stack: AsyncExitStack, edge: Edge, server: socket.socket, readiness: Readiness, limits: ServerLimits
) -> None:
    runner = edge_runner(edge, limits)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    # Called before the port closes.
    stack.callback(setattr, readiness, "shutting_down", True)
    listen(server, "--port", _BACKLOG)
    await web.SockSite(runner, server, backlog=_BACKLOG).start()
