"""Serve `/metrics` for Prometheus on a separate port.

The metrics show the volume and errors of tenants, and need no credential: restrict the port to the operators' network.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ingest_edge.listening import PortInUse, bind, metrics_address

logger = logging.getLogger(__name__)


async def serve_metrics(
    stack: AsyncExitStack,
    listen: str | None,
    server: socket.socket,
    registry: CollectorRegistry,
    index: int = 0,
) -> None:
    """Serve the registry until the stack is closed.

    `listen` is `PHAROS_METRICS_LISTEN`, host:port; the default is loopback, 100 ports above that of `server`. `index`
    is the number of the process among those that share the port of `server`: each has its own metrics port. Raises
    `PortInUse` if the configured address is in use. If the default is in use, the process runs without metrics.
    """
    host, _, port_text = metrics_address(listen, server.getsockname()[1], index).rpartition(":")
    host, port = host.strip("[]"), int(port_text)
    try:
        listener = bind(host, port)
    except PortInUse as error:
        message = (
            f"No /metrics at {host}:{port}: {error.reason}. Set PHAROS_METRICS_LISTEN to a free host:port."
        )
        if listen is not None:
            raise PortInUse(message) from error
        logger.warning(message)
        return
    runner = web.ServerRunner(web.Server(_make_handler(registry), access_log=None), handle_signals=False)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, listener).start()
    logger.info("metrics at http://%s:%d/metrics", host, listener.getsockname()[1])


def _make_handler(registry: CollectorRegistry) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/metrics":
            return web.Response(status=404, text="This port serves only /metrics.\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={hdrs.ALLOW: "GET, HEAD"})
        return web.Response(body=generate_latest(registry), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    return handle
