"""The steps that all kinds of traffic share: authentication, reading the body, rate limit, event log."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import hdrs, web

from ingest_edge.admission import Admission
from ingest_edge.authenticate import authenticate
from ingest_edge.body import check_declared_length, content_coding, decompress, read_body
from ingest_edge.body_budget import BodyBudgets, BodyLease
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import LogFull, StorageUnavailable, Unavailable
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry


@dataclass(slots=True)
class Intake:
    """The shared steps, with the engines and limits that they use."""

    directory: KeyDirectory
    log: EventLog
    admission: Admission
    limits: Limits
    budgets: BodyBudgets
    metrics: EdgeMetrics

    async def authenticate(self, request: web.BaseRequest, kind: CredentialKind, now_ms: int) -> KeyEntry:
        """Return the request's key. Raises `InvalidCredential` and `Unavailable`."""
        return await authenticate(request.headers.get(hdrs.AUTHORIZATION), kind, self.directory, now_ms)

    async def read(self, request: web.BaseRequest, limits: Limits, lease: BodyLease) -> bytes:
        """Return the decompressed body. The headers are checked before the body is read.

        `lease` counts the bytes in memory; the caller releases it. Raises `PayloadTooLarge`,
        `UnsupportedMediaType`, `InvalidInput`, `MalformedRequest`, `RequestTimeout` and `Unavailable`.
        """
        coding = content_coding(request.headers.get(hdrs.CONTENT_ENCODING))
        check_declared_length(request.content_length, limits)
        sent = await read_body(request, limits, lease)
        body = decompress(sent, coding, limits.decompressed_bytes)
        if body is not sent:
            lease.take(len(body))
            # From here on only the decompressed body is in memory.
            lease.release(len(sent))
        return body

    async def store(
        self, key: KeyEntry, records: int, topic: str, log_key: bytes, meta: bytes, body: bytes
    ) -> Mapping[str, str]:
        """Take the account's tokens, append one durable record, and return the headers with the remaining quota.

        Raises `RateLimited`, `PayloadTooLarge` and `Unavailable`.
        """
        headers = await self.admission.take(key.account_id, records, key.limit)
        try:
            await self.append(topic, log_key, meta, body)
        except Unavailable:
            self.admission.refund(key.account_id, records)
            raise
        self.metrics.events_accepted += records
        return headers

    async def append(self, topic: str, log_key: bytes, meta: bytes, body: bytes) -> None:
        """Append one durable record. Raises `Unavailable` if it may not be durable."""
        try:
            await self.log.append(topic, log_key, meta, body)
        except LogFull as error:
            raise Unavailable(
                "The event log is full. Nothing was stored; send it again.", retry_after=5
            ) from error
        except StorageUnavailable as error:
            raise Unavailable("The event log cannot be written. Send the same request again.") from error


def now_ms() -> int:
    """Return milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000
