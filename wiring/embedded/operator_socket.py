"""What the operator's commands ask of a running `pharos up`: on a Unix socket in the data folder that only its
owner can open. It is no part of the public API; who can open it can read the data files as well."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import orjson
from aiohttp import web

from analytics_queries.newest_events import EventCursor, newest_events
from control_domain.refusals import Refused
from operator_actions.door import ACTIONS, Engines
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryRefused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_MOST_EVENTS = 1000
# A dotenv text or bindings of 256 KiB, in which JSON writes each character as \u00XX, and a document of 50,000
# characters, beyond U+FFFF two of \uXXXX each.
_MOST_BYTES = 6 * 256 * 1024 + 12 * 50_000 + 4096


def build_operator_app(store: ChdbColumnStore, engines: Engines) -> web.Application:
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

    async def act(request: web.Request) -> web.StreamResponse:
        action = ACTIONS.get(request.match_info["name"])
        if action is None:
            raise web.HTTPNotFound(text="This version has no such action.")
        return _json(await action(engines, await request.json(), datetime.now(UTC)))

    @web.middleware
    async def explain(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (QueryRefused, Refused, ValueError) as error:
            return web.Response(status=400, text=str(error))
        except StorageUnavailable as error:
            return web.Response(status=503, text=str(error))

    app = web.Application(middlewares=[explain], client_max_size=_MOST_BYTES)
    app.router.add_get("/events", events)
    app.router.add_post("/query", query)
    app.router.add_post("/actions/{name:.+}", act)
    return app


def _json(document: object) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")
