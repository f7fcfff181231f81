"""The demo application: one page, a health check, and a line for each request."""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

VERSION = "$version"
PAGE = Path(__file__).with_name("index.html").read_bytes()


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self.answer(200, "text/plain", b"ok")
        elif self.path == "/":
            self.answer(200, "text/html; charset=utf-8", PAGE)
        else:
            self.answer(404, "text/plain", b"not found")

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        print("web", format % args, flush=True)


print("web", "version", VERSION, "in", os.environ.get("APP_ENV", "no environment"), flush=True)
try:
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Shop).serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
