"""A fake of the commit statuses in GitHub's REST API. It accepts what GitHub accepts, and nothing else; tests may
replace its responses."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKEN = "github_pat_11TESTtoken_do_not_print"
_STATES = ("pending", "success", "failure", "error")


@dataclass(frozen=True, slots=True)
class ReceivedStatus:
    """A status that the fake accepted."""

    repository: str
    revision: str
    state: str
    context: str
    description: str
    target_url: str | None


Response = Callable[[web.Request, ReceivedStatus], Awaitable[web.StreamResponse | None]]


@dataclass(slots=True)
class FakeGitHub:
    """`responses` are for the next requests, one each; `rule` is called for every request. None: respond
    as GitHub does."""

    accepted: list[ReceivedStatus] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """The raw paths of all requests."""
    responses: deque[Response] = field(default_factory=deque)
    rule: Response | None = None
    url: str = ""

    def states(self, revision: str | None = None) -> list[str]:
        """Return the accepted states in order, of one commit or of all."""
        return [status.state for status in self.accepted if revision in (None, status.revision)]

    async def make_status(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        assert request.headers["Accept"] == "application/vnd.github+json"
        assert request.headers["X-GitHub-Api-Version"] == "2022-11-28"
        assert request.headers["User-Agent"] == "Pharos"
        assert request.content_type == "application/json"
        body = json.loads(await request.read())
        assert set(body) <= {"state", "context", "description", "target_url"}
        assert body["state"] in _STATES and len(body["description"]) <= 140
        assert str(body.get("target_url", "https://")).startswith(("http://", "https://"))
        status = ReceivedStatus(
            f"{request.match_info['owner']}/{request.match_info['name']}",
            request.match_info["revision"],
            *(body[name] for name in ("state", "context", "description")),
            body.get("target_url"),
        )
        for response in (self.responses.popleft() if self.responses else None, self.rule):
            if response is not None and (replaced := await response(request, status)) is not None:
                return replaced
        self.accepted.append(status)
        return web.json_response({"state": status.state}, status=201)

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/repos/{owner}/{name}/statuses/{revision}", self.make_status)
        # Do not wait for requests that a test never responds to.
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield
        finally:
            await runner.cleanup()


def respond_with(code: int, document: Any = None, **headers: str) -> Response:
    """Respond with this and accept nothing. Names of headers are written with `_`."""

    async def respond(request: web.Request, status: ReceivedStatus) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(document or {}, status=code, headers=named)

    return respond


def cut_connection(accepted_by: FakeGitHub | None = None) -> Response:
    """Abort the connection without a response; `accepted_by` has accepted the status before."""

    async def cut(request: web.Request, status: ReceivedStatus) -> web.StreamResponse:
        if accepted_by is not None:
            accepted_by.accepted.append(status)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return cut


@dataclass(slots=True)
class DelayedResponse:
    """Delays responses until `go` is set."""

    received: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, status: ReceivedStatus) -> None:
        self.received.set()
        await self.go.wait()
