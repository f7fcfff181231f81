"""The operator socket of `pharos up`: a Unix socket in the data folder for the operator's commands. Only the owner of
the data folder can open it, and the owner can read the data files as well. It is not part of the public API.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web
from sqlalchemy.exc import SQLAlchemyError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryRefused
from wiring.database_errors import describe_database_error
from wiring.operator_door import OperatorEngines, answer_operator_call

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_operator_app(store: ChdbColumnStore, engines: OperatorEngines, back_up: Handler) -> web.Application:
    """Return the application of the socket. `back_up` makes a backup."""

    async def query(request: web.Request) -> web.StreamResponse:
        lines = await store.query_json_lines(await request.text())
        return web.Response(body=lines, content_type="application/x-ndjson")

    async def answer_call(request: web.Request) -> web.StreamResponse:
        status, document = await answer_operator_call(engines, await request.read(), datetime.now(UTC))
        return web.Response(status=status, body=document, content_type="application/json")

    @web.middleware
    async def explain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (QueryRefused, ValueError) as error:
            return web.Response(status=400, text=str(error))
        except SQLAlchemyError as error:
            return web.Response(status=503, text=describe_database_error(error))
        except StorageUnavailable as error:
            return web.Response(status=503, text=str(error))

    app = web.Application(middlewares=[explain_errors])
    app.router.add_post("/query", query)
    app.router.add_post("/calls", answer_call)
    app.router.add_post("/backups", back_up)
    return app


async def serve_operator_socket(stack: AsyncExitStack, app: web.Application, path: Path) -> None:
    # aiohttp itself replaces the socket file of a process that was killed.
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    before = os.umask(0o177)
    try:
        await web.UnixSite(runner, str(path)).start()
    finally:
        os.umask(before)
