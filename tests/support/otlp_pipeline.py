"""OTLP from the request to the rows: a real edge, its log, the consumers' loops and the column store."""

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from consumers.assemble import TRANSFORMS, assemble_loop
from ingest_edge.admission import Admission
from ingest_edge.app import build_edge, edge_runner
from ingest_edge.body_budget import BodyBudgets
from ingest_edge.health import Readiness
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from ingest_edge.otlp.accept import _SIGNALS, _validate_json
from ingest_edge.otlp.validate_records import Verdict
from ingest_edge.sentry.accept import AcceptSentry
from ingest_edge.sentry.dropped import DroppedItems
from pipeline_contracts import topics
from pipeline_contracts.client_address import ClientAddresses
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.rate_counter.in_process import InProcessRateCounter

JSON = "application/json"
PROTOBUF = "application/x-protobuf"


@dataclass(slots=True)
class OtlpResponse:
    """A response as it was received."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class OtlpPipeline:
    """The running pipeline. `endpoint` is the exporter's endpoint, to which it adds `/v1/traces` and so on."""

    endpoint: str
    key: str
    environment_id: str
    log: SqliteEventLog
    store: ColumnStore
    session: aiohttp.ClientSession
    content_type: str = JSON
    """The content type of the test's requests."""
    sentry: AcceptSentry = field(kw_only=True)
    """The handler of envelopes, whose counts of dropped items a test can flush."""

    @property
    def origin(self) -> str:
        """The address of the edge, without a path."""
        return self.endpoint.removesuffix("/api/v1/otlp")

    @property
    def dsn(self) -> str:
        """The DSN of the key."""
        return self.origin.replace("http://", f"http://{self.key}@") + "/1"

    async def post(
        self, signal: str, body: Any, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> OtlpResponse:
        """Send a request with the key; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes) or hasattr(body, "__aiter__") else json.dumps(body).encode()
        sent = {"Content-Type": JSON, "Authorization": f"Bearer {self.key}", **(headers or {})}
        url = f"{self.endpoint}/v1/{signal}"
        async with self.session.request(method, url, data=data, headers=sent) as response:
            return OtlpResponse(
                response.status, response.content_type, response.headers, await response.read()
            )

    async def consume(self) -> None:
        """Consume all accepted records into the store."""
        for name in ("telemetry", "traces", "logs", "metrics"):
            transform = TRANSFORMS[name]()
            loop = assemble_loop(
                Settings(chunk_seconds=0.01),
                transform,
                consumer=SqliteLogConsumer(self.log, "group", transform.topic),
                log=self.log,
                store=self.store,
            )
            loop.draining = True
            await asyncio.wait_for(loop.run(), 120)

    async def rows(self, table: str, order: str = "log_offset") -> list[dict[str, Any]]:
        """Return this pipeline's rows of `pharos.{table}`."""
        result = await self.store.query(
            f"SELECT * FROM pharos.{table} WHERE EnvironmentId = {{environment:String}} ORDER BY {order}",
            {"environment": self.environment_id},
        )
        return result.records()

    async def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query, which may use `{environment:String}`."""
        return (await self.store.query(sql, {"environment": self.environment_id})).records()

    async def appended(self, topic: str) -> int:
        """Return the number of records of the topic in the log."""
        return len(await self.log.read_frames(topic, 0, 2**40))


@contextlib.asynccontextmanager
async def open_otlp_pipeline(
    folder: Path,
    store: ColumnStore,
    *,
    protobuf: bool = False,
    is_application_key: bool = False,
    rate: RateLimit | None = None,
    clock: Callable[[], float] = time.monotonic,
    **limits: Any,
) -> AsyncIterator[OtlpPipeline]:
    """Yield a pipeline. `limits` are settings of the edge; the account's rate limit uses `clock`."""
    settings = Settings(**limits)
    log = await open_sqlite_log(folder / f"{secrets.token_hex(4)}.sqlite", 2**30)
    directory = InProcessKeyDirectory()
    key = make_credential(CredentialKind.INGEST_KEY)
    environment = f"env_{secrets.token_hex(8)}"
    unlimited = RateLimit(1e6, 10**6)
    await directory.publish(
        KeyEntry(
            digest_credential(key),
            CredentialKind.INGEST_KEY,
            f"acc_{secrets.token_hex(8)}",
            "prj_1",
            environment,
            rate or unlimited,
            is_application_key=is_application_key,
        )
    )
    intake = Intake(
        directory,
        log,
        Admission(InProcessRateCounter(clock), slice_seconds=0.0, clock=clock),
        Limits.from_settings(settings),
        BodyBudgets.from_limits(Limits.from_settings(settings)),
        EdgeMetrics(),
    )
    sentry = AcceptSentry(intake, DroppedItems(log, now_ms), ClientAddresses(()))
    intake.metrics.sentry_dropped = sentry.dropped.total
    edge = build_edge(
        intake,
        Readiness({"event_log": log.stalled_reason}),
        receipt_key=b"a receipt key of the test suite, 32+",
        protobuf=protobuf,
        sentry=sentry,
    )
    runner = edge_runner(edge)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession() as session:
            endpoint = f"http://127.0.0.1:{port}/api/v1/otlp"
            yield OtlpPipeline(endpoint, key, environment, log, store, session, sentry=sentry)
    finally:
        await runner.cleanup()
        await log.close()


ALL_SIGNALS = {"traces": topics.TRACES, "logs": topics.LOGS, "metrics": topics.METRICS}


def validate_json_body(signal: str, body: bytes, limits: Limits) -> tuple[Verdict, bytes]:
    """Return the verdict on a body of `traces`, `logs` or `metrics`, and the body that the log would get."""
    decoder = _SIGNALS[f"v1/{signal}"].decoder
    decoded = decoder.decode_sent(body)
    if isinstance(decoded, msgspec.DecodeError):
        decoded = decoder.decode_repaired(body, decoded, limits)
    return _validate_json(_SIGNALS[f"v1/{signal}"], decoded, limits)
