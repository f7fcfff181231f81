"""What the operator's commands ask of a running `pharos up`: on a Unix socket in the data folder that only its
owner can open. It is no part of the public API; who can open it can read the data files as well."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import orjson
from aiohttp import web

from analytics_queries.newest_events import EventCursor, newest_events
from control_api.projects.keys import KeyRefused, Sessions, create_key, list_keys, revoke_key
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryRefused
from storage_backends.key_directory.interface import KeyDirectory

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_MOST_EVENTS = 1000
_MOST_SQL = 256 * 1024


def build_operator_app(
    store: ChdbColumnStore, sessions: Sessions, directory: KeyDirectory
) -> web.Application:
    """The routes of the socket."""

    async def events(request: web.Request) -> web.StreamResponse:
        query = request.query
        rows = await newest_events(
            store,
            environment_id=query.get("environment", ""),
            since_ms=int(query.get("since_ms", "0")),
            after=EventCursor(
                int(query.get("after_ms", "0")),
                int(query.get("after_offset", "0")),
                int(query.get("after_position", "0")),
            ),
            limit=min(int(query.get("limit", "20")), _MOST_EVENTS),
        )
        return _json(rows)

    async def query(request: web.Request) -> web.StreamResponse:
        lines = await store.query_json_lines(await request.text())
        return web.Response(body=lines, content_type="application/x-ndjson")

    async def keys(request: web.Request) -> web.StreamResponse:
        return _json(list(await list_keys(sessions)))

    async def make_key(request: web.Request) -> web.StreamResponse:
        environment = (await request.json()).get("environment_id")
        return _json(await create_key(sessions, directory, environment, datetime.now(UTC)))

    async def drop_key(request: web.Request) -> web.StreamResponse:
        key_id = int(request.match_info["id"])
        return _json(await revoke_key(sessions, directory, key_id, datetime.now(UTC)))

    @web.middleware
    async def explain(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (QueryRefused, KeyRefused, ValueError) as error:
            return web.Response(status=400, text=str(error))
        except StorageUnavailable as error:
            return web.Response(status=503, text=str(error))

    app = web.Application(middlewares=[explain], client_max_size=_MOST_SQL)
    app.router.add_get("/events", events)
    app.router.add_post("/query", query)
    app.router.add_get("/keys", keys)
    app.router.add_post("/keys", make_key)
    app.router.add_delete("/keys/{id}", drop_key)
    return app


def _json(document: object) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")
