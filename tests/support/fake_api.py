"""A server that records requests of the command line, and returns the responses that a test sets."""

import contextlib
import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from operator_cli.api.target import Target

TOKEN = "phr_pat_secret"


@dataclass(frozen=True, slots=True)
class Received:
    """A request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; `content` may be a JSON document or the bytes of a body."""

    status: int = 200
    content: Any = field(default_factory=lambda: {"data": None})
    headers: Mapping[str, str] = field(default_factory=dict)
    breaks: bool = False
    """End the connection after the content, whose declared length is larger."""


NO_ANSWER = Answer(status=0)
"""End the connection without a response."""


def page(rows: list[dict[str, Any]], next_cursor: str | None = None) -> Answer:
    """Return the response with a page of a list."""
    return Answer(content={"data": rows, "next_cursor": next_cursor})


def problem(status: int, slug: str, detail: str, **members: Any) -> Answer:
    """Return a response with a problem document."""
    document = {"type": f"/problems/{slug}", "title": "Title", "status": status, "detail": detail, **members}
    return Answer(status, document, {"Content-Type": "application/problem+json"})


class FakeApi(ThreadingHTTPServer):
    """Returns the responses in `answers` one after the other, and those in `by_path` for requests of that path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: deque[Answer] = deque()
        self.by_path: dict[str, Answer] = {}
        self.requests: list[Received] = []
        self.connections = 0
        self.delay = 0.0
        """Seconds before each answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/api"

    @property
    def target(self) -> Target:
        return Target(self.url, TOKEN, "the token of the test", "Ask the test.")

    def find_answer(self, path: str) -> Answer:
        """Return the response to a request."""
        known = self.by_path.get(path.partition("?")[0])
        return known if known is not None else self.answers.popleft()


class _Handler(BaseHTTPRequestHandler):
    server: FakeApi
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        content = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(content) if content else None
        self.server.requests.append(Received(self.command, self.path, headers, body))
        answer = self.server.find_answer(self.path)
        # Not `time.sleep`, which tests replace.
        threading.Event().wait(self.server.delay)
        if answer is NO_ANSWER:
            self.close_connection = True
            return
        body_bytes = (
            answer.content if isinstance(answer.content, bytes) else json.dumps(answer.content).encode()
        )
        self.send_response(answer.status)
        given = {"Content-Type": "application/json", **answer.headers}
        for name, value in given.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body_bytes) + (10 if answer.breaks else 0)))
        self.end_headers()
        self.wfile.write(body_bytes)
        self.close_connection = self.close_connection or answer.breaks

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def log_message(self, *arguments: Any) -> None:
        return None


@contextlib.contextmanager
def running_fake_api() -> Iterator[FakeApi]:
    """Yield a listening server."""
    server = FakeApi()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
