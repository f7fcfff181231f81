"""The application that is deployed. Each of its responses names the version and the process.

It uses no code of Pharos. The file `release.json` next to it has its version and its faults. It does not shut down
gracefully: SIGTERM ends it with all requests in flight.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

RELEASE = json.loads(Path(__file__).with_name("release.json").read_text())
_EVENT_SECONDS = 0.25


class Handler(BaseHTTPRequestHandler):
    """Serves `/`, `/slow?seconds=`, `/stream?seconds=` and `/healthz`. A POST gets its own body as the
    response."""

    protocol_version = "HTTP/1.1"
    # Buffer the response, so that its head and body are written at once.
    wbufsize = -1

    def do_GET(self) -> None:
        """Respond to a GET. `/stream` is sent event by event, and the last event is `end`."""
        url = urlsplit(self.path)
        seconds = float(parse_qs(url.query).get("seconds", ["0"])[0])
        if url.path == "/stream":
            self._stream(seconds)
            return
        time.sleep(seconds)
        self._answer(503 if url.path == "/healthz" and RELEASE["fault"] == "unhealthy" else 200, "")

    def do_POST(self) -> None:
        """Respond to a POST with its own body."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        time.sleep(float(parse_qs(urlsplit(self.path).query).get("seconds", ["0"])[0]))
        self._answer(200, body)

    def _answer(self, status: int, echo: str) -> None:
        body = json.dumps(
            {"version": RELEASE["version"], "port": int(os.environ["PORT"]), "echo": echo}
        ).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(int(seconds / _EVENT_SECONDS)):
            self._write_event(RELEASE["version"])
            time.sleep(_EVENT_SECONDS)
        self._write_event("end")
        self.wfile.write(b"0\r\n\r\n")

    def _write_event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Write no log lines, because they would be part of the measured load."""


class Server(ThreadingHTTPServer):
    """Handles each connection in a thread of its own."""

    request_queue_size = 1024
    daemon_threads = True


if __name__ == "__main__":
    if RELEASE["fault"] == "ends":
        sys.exit("The application ends at its start, as configured.")
    Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
