"""The part of GitHub's REST API that makes commit statuses, on this machine. It takes what GitHub takes, and nothing
else; tests tell it how to answer instead."""

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
class Told:
    """One status that was taken."""

    repository: str
    revision: str
    state: str
    context: str
    description: str
    target_url: str | None


Answer = Callable[[web.Request, Told], Awaitable[web.StreamResponse | None]]


@dataclass(slots=True)
class FakeGitHub:
    """`answers` are for the next requests, one each; `rule` is asked for every request. None: as GitHub answers."""

    told: list[Told] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """Of all requests, as they were sent."""
    answers: deque[Answer] = field(default_factory=deque)
    rule: Answer | None = None
    url: str = ""

    def states(self, revision: str | None = None) -> list[str]:
        """What it was told, in order, of one commit or of all."""
        return [told.state for told in self.told if revision in (None, told.revision)]

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
        told = Told(
            f"{request.match_info['owner']}/{request.match_info['name']}",
            request.match_info["revision"],
            *(body[name] for name in ("state", "context", "description")),
            body.get("target_url"),
        )
        for answer in (self.answers.popleft() if self.answers else None, self.rule):
            if answer is not None and (given := await answer(request, told)) is not None:
                return given
        self.told.append(told)
        return web.json_response({"state": told.state}, status=201)

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/repos/{owner}/{name}/statuses/{revision}", self.make_status)
        # What is never answered is not waited for.
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield
        finally:
            await runner.cleanup()


def answer(status: int, document: Any = None, **headers: str) -> Answer:
    """This, and nothing is taken. Names of headers are written with `_`."""

    async def given(request: web.Request, told: Told) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(document or {}, status=status, headers=named)

    return given


def cut_connection(taken_by: FakeGitHub | None = None) -> Answer:
    """No answer; `taken_by` has taken it by then."""

    async def cut(request: web.Request, told: Told) -> web.StreamResponse:
        if taken_by is not None:
            taken_by.told.append(told)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return cut


@dataclass(slots=True)
class Held:
    """Requests that are not answered before `go`."""

    come: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, told: Told) -> None:
        self.come.set()
        await self.go.wait()
