"""The health port of a process without other ports."""

import socket
from contextlib import AsyncExitStack

import aiohttp

from wiring.processes.health_server import serve_health


async def test_health_port_responds_like_other_ports() -> None:
    async with AsyncExitStack() as stack:
        server = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        await serve_health(stack, server, {"engine": lambda: "is away"})
        http = await stack.enter_async_context(aiohttp.ClientSession(url))
        for method, path, status in (
            ("GET", "/health/live", 200),
            ("HEAD", "/health/live", 200),
            ("GET", "/health/ready", 503),
            ("POST", "/health/live", 405),
            ("GET", "/nothing", 404),
        ):
            async with http.request(method, path) as answer:
                assert answer.status == status
                assert answer.headers["X-Request-Id"]
                assert answer.headers["Server"] == "pharos"
                is_problem = answer.content_type == "application/problem+json"
                assert is_problem == (status in (404, 405))
