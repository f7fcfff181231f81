"""Runs the control plane as a process: FastAPI on a database, with keys in Redis and reports from ClickHouse."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from control_api.health import add_health, make_database_check
from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing import read_sealing_keys
from deployer.drivers.all_drivers import open_process_output
from ingest_edge.http_server import ServerLimits
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts.settings import PREFIX, BadSettings, Settings
from storage_backends.column_store.clickhouse_server import check_address, open_clickhouse_server
from storage_backends.key_directory.redis import open_redis_key_directory
from wiring.control_plane import assemble_control_plane
from wiring.processes.bounded_http import bounded_protocol
from wiring.processes.connecting_store import ConnectingColumnStore
from wiring.processes.prerequisites import require_settings

_SHUTDOWN_SECONDS = 20


@asynccontextmanager
async def run_control(settings: Settings, server: socket.socket) -> AsyncIterator[None]:
    """Serve the control plane on a bound socket until the context ends, then drain it. Raises `BadSettings`."""
    database_url, clickhouse_url, redis_url, receipt_key, variables_key = require_settings(
        settings, "database_url", "clickhouse_url", "redis_url", "receipt_key", "variables_key"
    )
    try:
        check_address(clickhouse_url)
    except ValueError as error:
        raise BadSettings(f"{PREFIX}CLICKHOUSE_URL: {error}") from error
    async with AsyncExitStack() as stack:
        engine = open_engine(database_url)
        stack.push_async_callback(engine.dispose)
        sessions = open_sessions(engine)
        directory = await open_redis_key_directory(redis_url, follow=False)
        stack.push_async_callback(directory.close)
        store = ConnectingColumnStore(
            lambda: open_clickhouse_server(
                clickhouse_url,
                cluster=settings.clickhouse_cluster,
                statement_seconds=settings.clickhouse_timeout_seconds,
            )
        )
        stack.push_async_callback(store.close)
        folder = settings.deploy_folder
        control = assemble_control_plane(
            settings,
            sessions=sessions,
            directory=directory,
            store=store,
            report_store=store,
            receipt_key=receipt_key.encode(),
            sealing_keys=read_sealing_keys(variables_key),
            process_output=None if folder is None else open_process_output(Path(folder)),
        )
        await stack.enter_async_context(control.workers.running(is_alone=False))
        app = control.app
        stack.push_async_callback(app.state.log_streams.close)
        stack.push_async_callback(app.state.change_streams.close)
        registry = add_health(app, {"database": make_database_check(sessions)})
        registry.register(control.workers.publication_age)
        registry.register(control.workers.alert_scan)
        await serve_metrics(stack, settings.metrics_listen, server, registry)
        http_server = control_server(app, ServerLimits.from_settings(settings))
        task = asyncio.create_task(http_server.serve(sockets=[server]), name="control")
        stack.push_async_callback(http_server.end, task)
        # Called before the server stops, because an open stream would delay the stop.
        stack.callback(app.state.log_streams.stop)
        stack.callback(app.state.change_streams.stop)
        yield


def control_server(app: FastAPI, limits: ServerLimits) -> "ControlServer":
    """Return the HTTP server of the application, which does not serve yet."""
    return ControlServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            # By default uvicorn trusts X-Forwarded-For from this machine, which any local process can forge.
            proxy_headers=False,
            server_header=False,
            http=bounded_protocol(limits),
        )
    )


class ControlServer(uvicorn.Server):
    """A server that leaves signal handling to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def end(self, task: "asyncio.Task[None]") -> None:
        """Finish the requests in flight, then stop."""
        self.should_exit = True
        await task
