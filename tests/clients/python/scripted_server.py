"""An HTTP server that records requests, and returns the responses that a test sets."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """One request, with its raw body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def batch(self) -> Any:
        """The body of an ingest request."""
        return json.loads(gzip.decompress(self.body))

    @property
    def titles(self) -> list[str]:
        return [event["title"] for event in self.batch["events"]]


@dataclass
class Reply:
    """A response of the server, which is sent once the event `wait` is set."""

    status: int = 202
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    wait: threading.Event | None = None


@dataclass
class ScriptedServer:
    """`respond` gets the number of the request, from 0, and the request."""

    url: str
    requests: list[Received]
    respond: Callable[[int, Received], Reply]

    def accepted(self) -> list[Received]:
        """Return the requests that got 202."""
        return [r for number, r in enumerate(self.requests) if self.respond(number, r).status == 202]


@contextmanager
def scripted_server(
    respond: Callable[[int, Received], Reply] = lambda _number, _request: Reply(),
) -> Iterator[ScriptedServer]:
    """Yield a running server on loopback."""
    requests: list[Received] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            received = Received(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            with lock:
                requests.append(received)
                number = len(requests) - 1
            reply = respond(number, received)
            if reply.wait is not None:
                reply.wait.wait(60)
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
            except OSError:
                pass

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield ScriptedServer(f"http://127.0.0.1:{server.server_port}", requests, respond)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
