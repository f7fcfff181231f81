"""A port that only answers how the process is."""

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from aiohttp import web

from ingest_edge.health import Readiness, ReadinessCheck


async def serve_health(
    stack: AsyncExitStack,
    server: socket.socket,
    checks: Mapping[str, ReadinessCheck],
) -> Readiness:
    """`/health/live` and `/health/ready` for a process that serves nothing else."""
    readiness = Readiness(checks)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/health/live":
                return await readiness.live(request)
            case "/health/ready":
                return await readiness.ready(request)
        return web.json_response({"title": "Not found", "status": 404}, status=404)

    runner = web.ServerRunner(web.Server(handle, access_log=None), handle_signals=False)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    stack.callback(setattr, readiness, "shutting_down", True)
    await web.SockSite(runner, server).start()
    return readiness
