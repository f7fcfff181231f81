"""The health port of a process that serves nothing else."""

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from aiohttp import web

from ingest_edge.app import Edge, edge_runner
from ingest_edge.health import Readiness, ReadinessCheck
from ingest_edge.metrics import EdgeMetrics


async def serve_health(
    stack: AsyncExitStack,
    server: socket.socket,
    checks: Mapping[str, ReadinessCheck],
) -> Readiness:
    """Serve `/health/live` and `/health/ready` on a bound socket."""
    readiness = Readiness(checks)

    edge = Edge(EdgeMetrics(), None)
    edge.add("GET", "/health/live", readiness.live)
    edge.add("GET", "/health/ready", readiness.ready)
    runner = edge_runner(edge)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    stack.callback(setattr, readiness, "shutting_down", True)
    await web.SockSite(runner, server).start()
    return readiness
