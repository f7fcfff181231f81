"""Requests of Express, Fastify and Koa, with the lines of the guide."""

import re
from pathlib import Path

import pytest

from tests.support.guide_blocks import GUIDES
from tests.support.javascript_client import run_node
from tests.support.platform_process import PlatformProcess

_HEAD = """
import { close, init, requestMiddleware } from 'pharos-client'
init()
const measure = requestMiddleware()
const ask = async (port) => {
  await (await fetch(`http://127.0.0.1:${port}/shop/orders/7?token=secret`)).text()
  await (await fetch(`http://127.0.0.1:${port}/shop/fails`)).text()
}
"""
_APPS = {
    "Express, Connect": """
        import express from 'express'
        const app = express()
        LINE
        const shop = express.Router()
        shop.get('/orders/:id', (request, response) => response.send('ok'))
        shop.get('/fails', (request, response) => response.status(500).send('no'))
        app.use('/shop', shop)
        const server = app.listen(0, '127.0.0.1', async () => {
          await ask(server.address().port)
          server.close()
          server.closeAllConnections()
        })
    """,
    "Fastify": """
        import Fastify from 'fastify'
        const fastify = Fastify()
        LINE
        fastify.get('/shop/orders/:id', async () => 'ok')
        fastify.get('/shop/fails', async () => { throw new Error('no') })
        await fastify.listen({ port: 0, host: '127.0.0.1' })
        await ask(fastify.server.address().port)
        await fastify.close()
    """,
    "Koa": """
        import Koa from 'koa'
        const app = new Koa()
        LINE
        app.use((context) => {
          context.status = context.path === '/shop/fails' ? 500 : 200
          context.body = 'x'
        })
        const server = app.listen(0, '127.0.0.1', async () => {
          await ask(server.address().port)
          server.close()
          server.closeAllConnections()
        })
    """,
}


@pytest.mark.parametrize("framework", _APPS)
def test_requests_of_a_framework(framework: str, platform: PlatformProcess, app: Path) -> None:
    found = re.search(rf"^\| {framework} \| `(.*)` \|$", (GUIDES / "javascript.md").read_text(), re.MULTILINE)
    assert found is not None
    (app / "app.mjs").write_text(_HEAD + _APPS[framework].replace("LINE", found[1]))
    service = f"js-{framework[:3].lower()}"
    done = run_node(
        app,
        "app.mjs",
        PHAROS_URL=f"http://127.0.0.1:{platform.port}",
        PHAROS_INGEST_KEY=platform.credentials["ingest_key"],
        OTEL_SERVICE_NAME=service,
    )
    assert done.returncode == 0, done.stderr
    platform.wait_until_consumed()
    rows = platform.query(
        f"SELECT name, route, url, status_code FROM pharos.telemetry_events WHERE service = '{service}' ORDER BY url"
    )
    # Only Express reports the matched route.
    fails, order = ("/shop/fails", "/shop/orders/:id") if framework.startswith("Express") else ("", "")
    assert rows == [
        {"name": f"GET {fails}".strip(), "route": fails, "url": "/shop/fails", "status_code": 500},
        {"name": f"GET {order}".strip(), "route": order, "url": "/shop/orders/7", "status_code": 200},
    ]
