"""Serves Git's smart HTTP protocol over TLS with `git http-backend`, optionally with a password."""

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.certificates import make_certificate


@dataclass
class GitHost:
    url: str
    certificate: Path
    password: str | None = None
    """The password of the user `ada`; None if no password is needed."""
    status: int | None = None
    """Status to send for every request instead of the repository."""
    requested_paths: list[str] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    root: Path
    host: GitHost

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        body = b""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        self.host.requested_paths.append(self.path)
        if self.host.status is not None:
            return self.send_error(self.host.status)
        expected = "Basic " + base64.b64encode(f"ada:{self.host.password}".encode()).decode()
        if self.host.password is not None and self.headers.get("Authorization") != expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        run = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        head, _, content = run.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def running_git_host(root: Path, folder: Path) -> Iterator[GitHost]:
    """Serve the bare repositories in `root`; write the certificate to `folder`."""
    certificate, key = _write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Handler", (_Handler,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    host = GitHost(f"https://127.0.0.1:{server.server_port}", certificate)
    handler.host = host  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    written, secret = folder / "host.pem", folder / "host.key"
    for path, content in zip((written, secret), make_certificate(), strict=True):
        path.write_bytes(content)
    return written, secret
