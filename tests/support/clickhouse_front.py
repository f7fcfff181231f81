"""The part of ClickHouse's HTTP interface that its clients need, served over chDB.

    python -m tests.support.clickhouse_front --data DIR [--port 8123]

`POST /_faults` injects faults of servers and networks: see `Faults`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support import fork_server
from tests.support.clickhouse_engine import Engine, decompress
from tests.support.engines import free_port

_START_SECONDS = 120.0
_LARGEST_BODY = 256 * 2**20
# URL parameters of the interface itself; all others are settings.
_INTERFACE_PARAMETERS = {
    "query",
    "database",
    "default_format",
    "session_id",
    "query_id",
    "user",
    "password",
    "wait_end_of_query",
}
_SERVER_SETTINGS = {
    "send_progress_in_http_headers",
    "http_headers_progress_interval_ms",
    "enable_http_compression",
}
_INSERT = re.compile(
    r"\s*INSERT\s+INTO\s+(?P<into>.+?)\s+FORMAT\s+(?P<format>\w+)\s*(?P<data>.*)\Z", re.I | re.S
)
_FORMAT = re.compile(r"\s+FORMAT\s+(\w+)\s*;?\s*\Z", re.I)
_CODE = re.compile(r"Code: (\d+)")


@dataclass(slots=True)
class Faults:
    """An injected fault: the time at which it ends, and the inserts that it affects (every n-th)."""

    mode: str = "none"
    """`503`: every request is refused. `cut_before`: an insert's connection is cut before the engine gets the rows.
    `cut_after`: it is cut after the engine has stored them. `held`: the engine gets the rows after a `release`, even if
    the client no longer waits for the response."""
    until: float = 0.0
    every: int = 1
    inserts: int = 0
    hits: int = 0

    def now(self) -> str:
        """Return the fault that is in force."""
        return self.mode if time.monotonic() < self.until else "none"

    def at_insert(self) -> str:
        """Return the fault of this insert, and count it."""
        mode = self.now()
        if mode in ("none", "503"):
            return mode
        self.inserts += 1
        if self.inserts % self.every:
            return "none"
        self.hits += 1
        return mode


class Front:
    """The handler of every request."""

    def __init__(self, engine: Engine, password: str | None) -> None:
        self._engine = engine
        self._password = password
        self.faults = Faults()
        self._released = asyncio.Event()
        self._held = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/ping":
            return web.Response(text="Ok.\n")
        form: dict[str, str] = {}
        body = b""
        if request.content_type == "multipart/form-data":
            # Clients send a statement and parameters that are too long for a URL as a form.
            form = {name: str(value) for name, value in (await request.post()).items()}
        else:
            body = await request.read()
        if request.path == "/_faults":
            if body:
                order = json.loads(body)
                if order["mode"] == "release":
                    self._released.set()
                    return web.json_response({"held": self._held})
                self._released.clear()
                self.faults = Faults(
                    order["mode"], time.monotonic() + order.get("seconds", 0), order.get("every", 1)
                )
            return web.json_response(
                {"mode": self.faults.now(), "hits": self.faults.hits, "held": self._held}
            )
        if self.faults.now() == "503":
            self.faults.hits += 1
            return web.Response(status=503, text="Service Unavailable")
        if not self._is_authorized(request):
            return _refusal("Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)", 403)
        try:
            return await self._run(request, {**request.query, **form}, body)
        except RuntimeError as error:
            return _refusal(str(error), 500)

    def _is_authorized(self, request: web.BaseRequest) -> bool:
        if self._password is None:
            return True
        given = request.headers.get("X-ClickHouse-Key")
        if given is None and (header := request.headers.get("Authorization")):
            with contextlib.suppress(ValueError):
                from aiohttp import BasicAuth

                given = BasicAuth.decode(header).password
        return given == self._password

    async def _run(self, request: web.BaseRequest, query: dict[str, str], body: bytes) -> web.StreamResponse:
        data = decompress(body, request.headers.get("Content-Encoding", ""))
        settings = {
            name: value
            for name, value in query.items()
            if name not in _INTERFACE_PARAMETERS | _SERVER_SETTINGS and not name.startswith("param_")
        }
        params = {name[6:]: value for name, value in query.items() if name.startswith("param_")}
        sql = query.get("query", "")
        insert = _INSERT.match(sql)
        if insert is not None or (
            not sql and (insert := _INSERT.match(data[:65536].decode(errors="replace")))
        ):
            assert insert is not None
            if not sql:
                data = data[len(data[:65536].decode(errors="replace")[: insert.start("data")].encode()) :]
            return await self._insert(request, insert["into"], insert["format"], data, settings)
        if data:
            # The body contains the statement, or its second half.
            sql = f"{sql} {data.decode()}" if sql else data.decode()
        named = _FORMAT.search(sql)
        fmt = query.get("default_format") or request.headers.get("X-ClickHouse-Format") or "TabSeparated"
        if named is not None:
            fmt, sql = named[1], sql[: named.start()]
        result = await self._engine.run_statement(sql.rstrip().rstrip(";"), fmt, settings, params)
        headers = {"X-ClickHouse-Format": fmt, "X-ClickHouse-Summary": "{}"}
        return web.Response(body=result, headers=headers)

    async def _insert(
        self, request: web.BaseRequest, into: str, fmt: str, data: bytes, settings: dict[str, str]
    ) -> web.StreamResponse:
        fault = self.faults.at_insert()
        if fault == "cut_before":
            _cut(request)
            return web.Response()
        if fault == "held":
            # Shielded: like a server, the front finishes an insert whose client has disconnected.
            rows = await asyncio.shield(asyncio.ensure_future(self._hold(into, fmt, data, settings)))
        else:
            rows = await asyncio.shield(asyncio.ensure_future(self._engine.insert(into, fmt, data, settings)))
        if fault == "cut_after":
            _cut(request)
        summary = json.dumps({"written_rows": str(rows), "read_rows": str(rows)})
        return web.Response(headers={"X-ClickHouse-Summary": summary})

    async def _hold(self, into: str, fmt: str, data: bytes, settings: dict[str, str]) -> int:
        self._held += 1
        try:
            await self._released.wait()
            return await self._engine.insert(into, fmt, data, settings)
        finally:
            self._held -= 1


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _refusal(message: str, status: int) -> web.Response:
    code = _CODE.search(message)
    # The status codes of the server: 404 for an unknown name, 400 for a syntax error.
    if code is not None:
        status = {"60": 404, "81": 404, "62": 400, "47": 404}.get(code[1], status)
    return web.Response(
        status=status,
        text=f"{message}\n",
        headers={"X-ClickHouse-Exception-Code": code[1] if code else "1002"},
    )


async def _serve(data: Path, port: int, password: str | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    engine = Engine(data)
    server = web.Server(Front(engine, password), access_log=None, auto_decompress=False)
    server.request_factory = _large_requests(server.request_factory)
    runner = web.ServerRunner(server, shutdown_timeout=10.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    await stop.wait()
    await runner.cleanup()
    engine.close()


def _large_requests(make: Any) -> Any:
    def made(*arguments: Any) -> web.BaseRequest:
        request: web.BaseRequest = make(*arguments)
        request._client_max_size = _LARGEST_BODY
        return request

    return made


@dataclass(slots=True)
class FrontServer:
    """A front in a separate process, which can be restarted on the same data."""

    data: Path
    port: int
    password: str | None = None
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def url(self) -> str:
        user = f"default:{self.password}@" if self.password else ""
        return f"http://{user}127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it responds. Raises `RuntimeError`."""
        self.data.mkdir(parents=True, exist_ok=True)
        secret = ["--password", self.password] if self.password else []
        with open(self.data / "front.log", "ab") as log:
            self.process = fork_server.popen(
                [
                    *(sys.executable, "-m", "tests.support.clickhouse_front"),
                    *("--data", str(self.data), "--port", str(self.port), *secret),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
                env={k: v for k, v in os.environ.items() if not k.startswith("PHAROS_")},
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=5):
                    return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.data / "front.log").read_text()[-2000:]) from None
                time.sleep(0.05)

    def set_fault(self, mode: str, seconds: float, *, every: int = 1) -> None:
        """Inject a fault; see `Faults`."""
        order = {"mode": mode, "seconds": seconds, "every": every}
        self._post_fault(json.dumps(order).encode())

    def release(self) -> None:
        """Run the held inserts, in the order in which they arrived."""
        self._post_fault(b'{"mode": "release"}')

    def held_inserts(self) -> int:
        """Return the number of inserts that are held or running."""
        return int(self._post_fault(b"")["held"])

    def fault_hits(self) -> int:
        """Return the number of requests that the current fault has affected."""
        return int(self._post_fault(b"")["hits"])

    def _post_fault(self, body: bytes) -> dict[str, Any]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/_faults", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            state: dict[str, Any] = json.loads(response.read())
        return state

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the process with this signal, and wait for its end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def running_clickhouse_front(
    folder: Path, port: int | None = None, *, password: str | None = None
) -> Iterator[FrontServer]:
    """Yield a started front on this folder; stop it at the end."""
    front = FrontServer(folder, port or free_port(), password)
    try:
        front.start()
        yield front
    finally:
        front.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="clickhouse_front", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--password")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.data, arguments.port, arguments.password))


if __name__ == "__main__":
    main()
