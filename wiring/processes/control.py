"""The control plane as a process: FastAPI on a database, publishing keys into Redis, asking ClickHouse."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from control_api.app import build_control
from control_api.health import add_health, database_check
from control_api.limits.report_queue import report_limits
from control_api.limits.request_limits import RequestBounds, RequestLimits
from control_domain.database.engine import open_engine, open_sessions
from control_domain.sealing.read_setting import read_sealing_keys
from control_workers.commit_statuses.report_periodically import reporting
from control_workers.configuration_runs import ApplicationWorker, applying
from control_workers.forget_idempotency_keys import keep_forgetting
from control_workers.publish_keys import keep_published
from control_workers.refresh_daily_rollups import keep_told
from control_workers.waiting_pushes import WebhookWorker, following
from ingest_edge.http_server import ServerLimits
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.end_task import end_task
from storage_backends.key_directory.redis import open_redis_key_directory
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
        stop = asyncio.Event()
        publishing = asyncio.create_task(keep_published(sessions, directory, stop), name="publish keys")
        stack.push_async_callback(_end, stop, publishing)
        telling = asyncio.create_task(keep_told(sessions, store, stop), name="finished days")
        stack.push_async_callback(end_task, telling)
        forgetting = asyncio.create_task(keep_forgetting(sessions, stop), name="old answers")
        stack.push_async_callback(end_task, forgetting)
        limits = ServerLimits.from_settings(settings)
        keys = read_sealing_keys(variables_key)
        worker = await stack.enter_async_context(
            applying(ApplicationWorker(sessions, directory, keys), is_alone=False)
        )
        await stack.enter_async_context(following(WebhookWorker(sessions, directory)))
        await stack.enter_async_context(reporting(sessions, settings))
        app = build_control(
            sessions,
            store,
            receipt_key.encode(),
            keys,
            limits.trusted,
            worker.wake,
            directory=directory,
            git_app_secret=settings.git_app_secret,
            report_limits=report_limits(settings.max_reports_at_once),
            request_limits=RequestLimits(RequestBounds.from_settings(settings)),
        )
        stack.push_async_callback(app.state.log_streams.close)
        registry = add_health(app, {"database": database_check(sessions)})
        await serve_metrics(stack, settings.metrics_listen, server, registry)
        serving = control_server(app, limits)
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


async def _end(stop: asyncio.Event, task: "asyncio.Task[None]") -> None:
    stop.set()
    await task
