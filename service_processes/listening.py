"""Ports: one that several processes share, and one that only answers how the process is."""

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ingest_edge.health import Readiness, ReadinessCheck


class PortInUse(Exception):
    """Something else listens on the address."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket, not yet listening. `shared`: other processes of ours may bind the same port, and the system
    spreads connections over those that listen. Raises `PortInUse`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        raise PortInUse(f"{host}:{port} cannot be used ({error.strerror}). Choose another --port.") from None
    return server


async def serve_health(
    stack: AsyncExitStack,
    server: socket.socket,
    checks: Mapping[str, ReadinessCheck],
    registry: CollectorRegistry,
) -> Readiness:
    """`/health/live`, `/health/ready` and `/metrics` for a process that serves nothing else."""
    readiness = Readiness(checks)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/health/live":
                return await readiness.live(request)
            case "/health/ready":
                return await readiness.ready(request)
            case "/metrics":
                headers = {"Content-Type": CONTENT_TYPE_LATEST}
                return web.Response(body=generate_latest(registry), headers=headers)
        return web.json_response({"title": "Not found", "status": 404}, status=404)

    runner = web.ServerRunner(web.Server(handle, access_log=None), handle_signals=False)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    stack.callback(setattr, readiness, "shutting_down", True)
    await web.SockSite(runner, server).start()
    return readiness
