"""A fake of the ingest API for `pharos send`: it stores each batch ID once, like the platform, and fails on demand."""

import json
import zlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from operator_cli.ingest.sending.backoff import Backoff
from operator_cli.ingest.sending.delivery import Delivery, open_sending_session
from operator_cli.ingest.sending.progress_file import ProgressFolder
from operator_cli.ingest.sending.report import Report
from operator_cli.ingest.sending.send_files import RateLimit, Sender, send_files

Fault = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse | None]]


class FakeIngest:
    """Each of `faults` handles one of the next requests; `rule` handles every request."""

    def __init__(self) -> None:
        self.stored: dict[str, list[dict[str, Any]]] = {}
        self.requests: list[str] = []
        self.conflicts: list[str] = []
        self.faults: deque[Fault] = deque()
        self.rule: Fault | None = None
        self.receipt_statuses: deque[str] = deque()

    def events(self) -> list[dict[str, Any]]:
        """Return the events that a platform would have stored."""
        return [event for events in self.stored.values() for event in events]

    def counts(self, field: str = "id") -> Counter[Any]:
        """Return the number of times that each event was stored."""
        return Counter(event[field] for event in self.events())

    async def ingest(self, request: web.Request) -> web.StreamResponse:
        assert request.content_type == "application/json"
        assert request.headers["Content-Encoding"] == "gzip"
        assert request.headers["Authorization"] == "Bearer the-key"
        body = json.loads(zlib.decompress(await request.read(), wbits=31))
        self.requests.append(body["batch_id"])
        for fault in (self.faults.popleft() if self.faults else None, self.rule):
            if fault is not None and (answer := await fault(request, body)) is not None:
                return answer
        return self.accept(body)

    def accept(self, body: dict[str, Any]) -> web.StreamResponse:
        batch_id, events = body["batch_id"], body["events"]
        if self.stored.setdefault(batch_id, events) != events:
            self.conflicts.append(batch_id)
        receipt = {"id": f"rcp_{batch_id}", "batch_id": batch_id, "status": "queued", "received": len(events)}
        return web.json_response({"data": receipt}, status=202)

    async def receipt(self, request: web.Request) -> web.StreamResponse:
        status = self.receipt_statuses.popleft() if self.receipt_statuses else "stored"
        errors = ["no room"] if status == "failed" else []
        return web.json_response({"data": {"status": status, "errors": errors}})

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Yield the base URL."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/api/v1/ingest", self.ingest)
        app.router.add_get("/api/v1/ingest/receipts/{id}", self.receipt)
        # Shutdown does not wait for requests that a rule never answers.
        runner = web.AppRunner(app, auto_decompress=False, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/api"
        finally:
            await runner.cleanup()


def answer(
    status: int, document: dict[str, Any] | None = None, *, is_pharos: bool = True, **headers: str
) -> Fault:
    """Return a fault that refuses a request with this status, as Pharos or another server does."""

    async def fault(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        content_type = "application/problem+json" if is_pharos else "text/html"
        return web.json_response(document or {}, status=status, headers=headers, content_type=content_type)

    return fault


def cut_connection(ingest: FakeIngest, *, stored: bool) -> Fault:
    """Return a fault that breaks the connection before the response, with the batch stored or not."""

    async def fault(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if stored:
            ingest.accept(body)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return fault


def write_events(path: Path, numbers: range, *, mode: str = "w") -> None:
    """Write one log event for each number, with the number as its ID."""
    with path.open(mode) as file:
        file.writelines(f'{{"type":"log","id":"{n}","title":"event number {n}"}}\n' for n in numbers)


async def send(
    base_url: str, folder: Path, *files: Path, strict: bool = False, source: str = "", batch: int = 10
) -> tuple[Report, list[str]]:
    """Send as the command does. Return the report and the messages."""
    messages: list[str] = []
    report = Report(strict, messages.append)
    async with open_sending_session("the-key", 4) as session:
        delivery = Delivery(session, base_url, Backoff(report, 120.0), report)
        sender = Sender(
            deliver=delivery.deliver,
            folder=ProgressFolder(folder, "somewhere", source),
            report=report,
            max_events=batch,
            concurrency=3,
            rate_limit=RateLimit(None),
            format=None,
            show_progress=lambda file, done: None,
        )
        await send_files(sender, [str(file) for file in files])
    return report, messages
