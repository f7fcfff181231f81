"""A real edge on a free loopback port, over the real embedded engines, for tests that speak HTTP to it."""

import asyncio
import contextlib
import itertools
import json
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from ingest_edge.accelerator import Accelerator
from ingest_edge.admission import Admission
from ingest_edge.app import build_edge, edge_runner
from ingest_edge.body_budget import BodyBudgets
from ingest_edge.collect.accept import AcceptCollect
from ingest_edge.collect.countries import Countries
from ingest_edge.collect.daily_salts import DailySalts
from ingest_edge.collect.dropped import DroppedEvents
from ingest_edge.health import Readiness
from ingest_edge.http_server import ServerLimits
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from ingest_edge.sentry.accept import AcceptSentry
from ingest_edge.sentry.dropped import DroppedItems
from pipeline_contracts import topics
from pipeline_contracts.client_address import ClientAddresses, parse_networks
from pipeline_contracts.collected import Collected, CollectMeta, decode_collect_meta, decode_collected
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.origins import normalize_origin
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import LogRecord
from pipeline_contracts.settings import Settings
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry, SiteEntry
from storage_backends.rate_counter.in_process import InProcessRateCounter
from storage_backends.salts.in_file import FileSalts

INGEST = "/api/v1/ingest"
WIDE = RateLimit(1_000_000.0, 1_000_000)
BROWSER = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
_site_ids = itertools.count(1)
RECEIPT_KEY = b"a receipt key of the test suite, 32+"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, as received."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        return json.loads(self.body)

    def fields(self) -> list[str]:
        """The fields that a 422 lists."""
        return [error["field"] for error in self.document().get("errors", [])]


@dataclass(slots=True)
class RunningEdge:
    """The edge, its engines, and a client with a valid key."""

    port: int
    log: SqliteEventLog
    log_path: Path
    directory: InProcessKeyDirectory
    budgets: BodyBudgets
    readiness: Readiness
    key: str
    environment_id: str
    receipt_key: bytes
    session: aiohttp.ClientSession
    dropped: DroppedEvents
    salts: FileSalts
    metrics: EdgeMetrics
    sentry: AcceptSentry
    runner: web.ServerRunner

    def open_connections(self) -> int:
        return len(self.connections())

    def connections(self) -> list[Any]:
        """Return aiohttp's handlers of the open connections."""
        return [] if self.runner.server is None else self.runner.server.connections

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, **options) as response:
            return Answer(response.status, response.headers, await response.read())

    async def post(self, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """Send an ingest request: bytes as they are, an asynchronous iterator in chunks, other values as JSON."""
        if not isinstance(body, bytes) and not hasattr(body, "__aiter__"):
            body = json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}", **(headers or {})}
        return await self.request("POST", INGEST, data=body, headers=sent)

    def head(self, *lines: str) -> bytes:
        """Return the head of an ingest request with further header lines, for `raw`."""
        return "\r\n".join(
            [
                f"POST {INGEST} HTTP/1.1",
                "Host: edge",
                f"Authorization: Bearer {self.key}",
                "Content-Type: application/json",
                *lines,
                "",
                "",
            ]
        ).encode()

    async def raw(self, parts: Iterable[bytes], *, half_close: bool = False) -> Answer | None:
        """Send bytes on a new connection; return the first response, or None if the edge closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if half_close:
                writer.write_eof()
            return await _read_answer(reader)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def appended(self, topic: str = topics.TELEMETRY) -> list[LogRecord]:
        """Return all records of a topic."""
        return await self.log.read_frames(topic, 0, 2**40)

    async def issue_key(
        self,
        kind: CredentialKind = CredentialKind.INGEST_KEY,
        *,
        limit: RateLimit = WIDE,
        expires_ms: int | None = None,
        account_id: str | None = None,
        monitor: str | None = None,
        may_create: bool = False,
    ) -> str:
        """Publish and return a key of a new account."""
        key = make_credential(kind)
        await self.directory.publish(
            KeyEntry(
                digest_credential(key),
                kind,
                account_id or f"acc_{secrets.token_hex(8)}",
                "prj_1",
                self.environment_id,
                limit,
                expires_ms,
                monitor,
                may_create=may_create,
            )
        )
        return key

    async def name_heartbeat(self, name: str, number: int, environment_id: str = "env_1") -> None:
        """Publish the name of a heartbeat."""
        digest = digest_heartbeat_name(environment_id, name)
        limit, monitor = RateLimit(1, 1), f"heartbeat/{number}"
        kind = CredentialKind.HEARTBEAT_NAME
        await self.directory.publish(
            KeyEntry(digest, kind, "acc_1", "prj_1", environment_id, limit, monitor=monitor)
        )

    async def open_site(self, *origins: str, limit: RateLimit = WIDE) -> str:
        """Publish a new site and return its tracker ID."""
        tracker_id = make_identifier("sit", 0)
        site = SiteEntry(next(_site_ids), tuple(normalize_origin(origin) for origin in origins))
        digest = digest_credential(tracker_id)
        entry = KeyEntry(digest, CredentialKind.SITE, "acc_1", "prj_1", "", limit, site=site)
        await self.directory.publish(entry)
        return tracker_id

    async def collect(
        self, tracker_id: str, body: Any, origin: str | None = "https://shop.example", **headers: str
    ) -> Answer:
        """Send a collect request of a page of this origin: events as a list, other values as they are."""
        if isinstance(body, list):
            body = json.dumps({"events": body}).encode()
        sent = {"Content-Type": "text/plain;charset=UTF-8", "User-Agent": BROWSER}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if origin is not None:
            sent["Origin"] = origin
        return await self.request("POST", f"/api/v1/collect/{tracker_id}", data=body, headers=sent)

    async def collected(self) -> list[tuple[CollectMeta, Collected]]:
        """Return the page views in the log."""
        records = await self.appended(topics.PAGEVIEWS)
        return [
            (meta, decode_collected(record.value))
            for record in records
            if (meta := decode_collect_meta(record.meta)).kind == "events"
        ]

    async def fill_disk(self) -> None:
        """Limit the log's file to its size: the next large commit fails as on a full disk."""
        await self.log.call(lambda connection: connection.execute("PRAGMA max_page_count=1").fetchall())

    async def free_disk(self) -> None:
        await self.log.call(lambda connection: connection.execute("PRAGMA max_page_count=100000").fetchall())

    def stored_records(self) -> int:
        """Count all records ever appended to the log's file, as another process sees it."""
        connection = sqlite3.connect(self.log_path)
        try:
            row = connection.execute(
                "SELECT next_offset FROM topics WHERE topic = ?", (topics.TELEMETRY,)
            ).fetchone()
            return row[0] if row else 0
        finally:
            connection.close()


async def _read_answer(reader: asyncio.StreamReader) -> Answer | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.strip().title(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if first.split(" ")[1] == "100":
        return await _read_answer(reader)
    body = await reader.readexactly(int(headers["Content-Length"]))
    return Answer(int(first.split(" ")[1]), headers, body)


@contextlib.asynccontextmanager
async def open_edge(
    folder: Path,
    *,
    rate: RateLimit = WIDE,
    log_max_bytes: int = 2**30,
    directory: KeyDirectory | None = None,
    protobuf: bool = False,
    trusted_proxies: str = "",
    country_header: str | None = None,
    country_database: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    server_limits: ServerLimits | None = None,
    accelerator: Accelerator | None = None,
    **limits: Any,
) -> AsyncIterator[RunningEdge]:
    """Start an edge on a free port. `limits` are fields of `Limits`; the others are the product's defaults. `rate` is
    that of the key's account, whose bucket refills by `clock`. `directory` replaces the one in memory."""
    async with AsyncExitStack() as stack:
        log_path = folder / "event-log.sqlite"
        log = await open_sqlite_log(log_path, log_max_bytes)
        stack.push_async_callback(log.close)
        keys = InProcessKeyDirectory()
        all_limits = replace(Limits.from_settings(Settings()), **limits)
        budgets = BodyBudgets.from_limits(all_limits)
        metrics = EdgeMetrics()
        readiness = Readiness({"event_log": log.stalled_reason})
        intake = Intake(
            directory=directory or keys,
            log=log,
            admission=Admission(InProcessRateCounter(clock), slice_seconds=0.0, clock=clock),
            limits=all_limits,
            budgets=budgets,
            metrics=metrics,
        )
        salts = FileSalts(folder / "salts.json")
        countries = Countries(country_database)
        stack.callback(countries.close)
        dropped = DroppedEvents(log, now_ms)
        addresses = ClientAddresses(parse_networks(trusted_proxies))
        collect = AcceptCollect(intake, DailySalts(salts), addresses, countries, dropped, country_header)
        sentry = AcceptSentry(intake, DroppedItems(log, now_ms), addresses)
        metrics.sentry_dropped = sentry.dropped.total
        edge_app = build_edge(
            intake,
            readiness,
            receipt_key=RECEIPT_KEY,
            collect=collect,
            sentry=sentry,
            protobuf=protobuf,
            accelerator=accelerator,
        )
        runner = edge_runner(edge_app, server_limits)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        session = aiohttp.ClientSession(auto_decompress=False)
        stack.push_async_callback(session.close)
        edge = RunningEdge(
            port=runner.addresses[0][1],
            log=log,
            log_path=log_path,
            directory=keys,
            budgets=budgets,
            readiness=readiness,
            key="",
            environment_id="env_1",
            receipt_key=RECEIPT_KEY,
            session=session,
            dropped=dropped,
            salts=salts,
            metrics=metrics,
            sentry=sentry,
            runner=runner,
        )
        edge.key = await edge.issue_key(limit=rate)
        yield edge


StartEdge = Callable[..., Awaitable[RunningEdge]]


@pytest.fixture
async def start_edge(tmp_path: Path) -> AsyncIterator[StartEdge]:
    """Return a function that starts edges as `open_edge` does. They end with the test."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> RunningEdge:
            folder = tmp_path / secrets.token_hex(4)
            folder.mkdir()
            return await stack.enter_async_context(open_edge(folder, **options))

        yield start


@pytest.fixture
async def edge(start_edge: StartEdge) -> RunningEdge:
    """Return an edge with the default limits, and an account without a rate limit."""
    return await start_edge()
