"""Serves the control plane on a loopback port, as the embedded platform does."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from control_domain.sealing import SealingKeys
from ingest_edge.app import Edge, edge_runner
from ingest_edge.metrics import EdgeMetrics
from wiring.embedded.asgi_bridge import asgi_handler

VARIABLE_KEYS = SealingKeys.read("a key for variables of the test suite")


@contextlib.asynccontextmanager
async def serving_control(app: Any) -> AsyncIterator[str]:
    """Serve the application; yield its URL, `http://127.0.0.1:…`."""
    runner = edge_runner(Edge(EdgeMetrics(), asgi_handler(app)))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await app.state.log_streams.close()
        await app.state.change_streams.close()
