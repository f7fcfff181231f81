"""The control plane as a process: FastAPI on a database, publishing keys into Redis, asking ClickHouse."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from control_api.health import add_health, make_database_check
from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing import read_sealing_keys
from ingest_edge.http_server import ServerLimits
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.key_directory.redis import open_redis_key_directory
from wiring.control_plane import assemble_control_plane
from wiring.processes.bounded_http import bounded_protocol
from wiring.processes.needs import need
from wiring.processes.patience import when_there

_SHUTDOWN_SECONDS = 20


@asynccontextmanager
async def run_control(settings: Settings, server: socket.socket) -> AsyncIterator[None]:
    """The control plane on a bound socket, from listening to drained. Raises `BadSettings`."""
    database_url, clickhouse_url, redis_url, receipt_key, variables_key = need(
        settings, "database_url", "clickhouse_url", "redis_url", "receipt_key", "variables_key"
    )
    async with AsyncExitStack() as stack:
        engine = open_engine(database_url)
        stack.push_async_callback(engine.dispose)
        sessions = open_sessions(engine)
        directory = await open_redis_key_directory(redis_url, follow=False)
        stack.push_async_callback(directory.close)
        store = await when_there(
            lambda: open_clickhouse_server(
                clickhouse_url,
                cluster=settings.clickhouse_cluster,
                statement_seconds=settings.clickhouse_timeout_seconds,
            )
        )
        stack.push_async_callback(store.close)
        control = assemble_control_plane(
            settings,
            sessions=sessions,
            directory=directory,
            store=store,
            report_store=store,
            receipt_key=receipt_key.encode(),
            sealing_keys=read_sealing_keys(variables_key),
        )
        await stack.enter_async_context(control.workers.running(is_alone=False))
        app = control.app
        stack.push_async_callback(app.state.log_streams.close)
        registry = add_health(app, {"database": make_database_check(sessions)})
        await serve_metrics(stack, settings.metrics_listen, server, registry)
        serving = control_server(app, ServerLimits.from_settings(settings))
        task = asyncio.create_task(serving.serve(sockets=[server]), name="control")
        stack.push_async_callback(serving.end, task)
        # A live log would hold the shutdown up.
        stack.callback(app.state.log_streams.stop)
        yield


def control_server(app: FastAPI, limits: ServerLimits) -> "ControlServer":
    """The HTTP server of the application, not yet serving."""
    return ControlServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            # By default it would believe X-Forwarded-For of this machine, whoever wrote it.
            proxy_headers=False,
            server_header=False,
            http=bounded_protocol(limits),
        )
    )


class ControlServer(uvicorn.Server):
    """Leaves the signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def end(self, task: "asyncio.Task[None]") -> None:
        """Answer what is under way, then stop."""
        self.should_exit = True
        await task
