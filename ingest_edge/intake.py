"""The steps that all kinds of traffic share: authentication, reading the body, rate limit, event log."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from aiohttp import hdrs, web
from multidict import CIMultiDictProxy

from ingest_edge.admission import Admission
from ingest_edge.authenticate import authenticate, authenticate_now
from ingest_edge.body import check_declared_length, content_coding, decompress, read_body
from ingest_edge.body_budget import BodyBudgets, BodyLease
from ingest_edge.limits import Limits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import (
    LogFull,
    PayloadTooLarge,
    Problem,
    RecordTooLarge,
    StorageUnavailable,
    Unavailable,
)
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

_CODINGS = ("identity", "gzip", "deflate", "zstd")
_USUAL_SECONDS = 1.0
_MAX_ACCOUNTS = 10_000


@dataclass(slots=True)
class Intake:
    """The shared steps, with the engines and limits that they use."""

    directory: KeyDirectory
    log: EventLog
    admission: Admission
    limits: Limits
    budgets: BodyBudgets
    metrics: EdgeMetrics
    _usual_until: dict[str, float] = field(default_factory=dict)

    async def authenticate(self, request: web.BaseRequest, kind: CredentialKind, now_ms: int) -> KeyEntry:
        """Return the request's key. Raises `InvalidCredential` and `Unavailable`."""
        return await authenticate(request.headers.get(hdrs.AUTHORIZATION), kind, self.directory, now_ms)

    def accept_head_now(self, headers: "CIMultiDictProxy[str]", now_ms: int) -> "AcceptedHead | None":
        """Check the head of a request for the fast path. None if its key is invalid or has to be looked up, if its
        content coding is an uncommon one, or if a request of the account was just refused."""
        coding = headers.get(hdrs.CONTENT_ENCODING, "identity")
        if coding not in _CODINGS:
            return None
        key = authenticate_now(
            headers.get(hdrs.AUTHORIZATION), CredentialKind.INGEST_KEY, self.directory, now_ms
        )
        if key is None or monotonic() < self._usual_until.get(key.account_id, 0.0):
            return None
        return AcceptedHead(key, coding, now_ms) if self.admission.may_take_now(key.account_id) else None

    def prefer_usual_path(self, account_id: str) -> None:
        """For a second, let the account's requests take the usual path: a request that is refused would be decoded
        twice."""
        if len(self._usual_until) >= _MAX_ACCOUNTS:
            self._usual_until.clear()
        self._usual_until[account_id] = monotonic() + _USUAL_SECONDS

    def unpack_now(self, sent: bytes, coding: str, limits: Limits) -> bytes | None:
        """Return the decompressed body; None if it is too large. Raises for a broken body what `read` raises."""
        if len(sent) > limits.body_bytes:
            return None
        return decompress(sent, coding, limits.decompressed_bytes)

    async def read(
        self, request: web.BaseRequest, limits: Limits, lease: BodyLease, *, brotli: bool = False
    ) -> bytes:
        """Return the decompressed body. The headers are checked before the body is read.

        `brotli`: also accept bodies that are compressed with Brotli.

        `lease` counts the bytes in memory; the caller releases it. Raises `PayloadTooLarge`,
        `UnsupportedMediaType`, `InvalidInput`, `MalformedRequest`, `RequestTimeout` and `Unavailable`.
        """
        coding = content_coding(request.headers.get(hdrs.CONTENT_ENCODING), allow_brotli=brotli)
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
        try:
            headers = await self.admission.take(key.account_id, records, key.limit)
        except Problem:
            self.prefer_usual_path(key.account_id)
            raise
        try:
            await self.append(topic, log_key, meta, body)
        except Problem:
            self.admission.refund(key.account_id, records)
            raise
        self.metrics.events_accepted += records
        return headers

    async def store_all(self, key: KeyEntry, tokens: int, entries: Sequence["LogEntry"]) -> Mapping[str, str]:
        """Take the given number of the account's tokens, append the durable records, and return the headers with the
        remaining quota. The caller counts the records in the metrics.

        If it raises, some of the entries may be stored: each must have an identity, by which the consumers recognize a
        repetition. Raises `RateLimited`, `PayloadTooLarge` and `Unavailable`.
        """
        headers: Mapping[str, str] = {}
        if tokens:
            headers = await self.admission.take(key.account_id, tokens, key.limit)
        try:
            appended = await asyncio.gather(
                *(self.append(*entry) for entry in entries), return_exceptions=True
            )
            for error in appended:
                if error is not None:
                    raise error
        except Problem:
            self.admission.refund(key.account_id, tokens)
            raise
        return headers

    def store_now(
        self, key: KeyEntry, records: int, topic: str, log_key: bytes, meta: bytes, body: bytes
    ) -> "Storing | None":
        """Like `store`, but None if the request has to wait for tokens or for another reason, or is refused. Raises
        `Unavailable`."""
        lease = self.budgets.telemetry.lease(key.account_id)
        lease.take(len(body))
        headers = self.admission.take_now(key.account_id, records, key.limit)
        if headers is None:
            lease.release()
            if not self.admission.waits_for_leases:
                self.prefer_usual_path(key.account_id)
            return None
        storing = Storing(self, key.account_id, records, lease, headers)
        try:
            storing.durable = self.log.append(topic, log_key, meta, body)
        except BaseException as error:
            storing.give_up()
            if isinstance(error, StorageUnavailable):
                self.prefer_usual_path(key.account_id)
                return None
            raise
        return storing

    async def append(self, topic: str, log_key: bytes, meta: bytes, body: bytes) -> None:
        """Append one durable record. Raises `Unavailable` if it may not be durable, and `PayloadTooLarge`."""
        try:
            await self.log.append(topic, log_key, meta, body)
        except StorageUnavailable as error:
            raise _refusal(error) from error


class LogEntry(NamedTuple):
    """One record to append: its topic, its key in the log, its header and its value."""

    topic: str
    log_key: bytes
    meta: bytes
    body: bytes


class AcceptedHead(NamedTuple):
    """The head of a request on the fast path."""

    key: KeyEntry
    coding: str
    """The content coding of the body."""
    received_ms: int


class Storing:
    """A record that was appended, and is not durable yet."""

    __slots__ = ("durable", "headers", "_intake", "_account_id", "_records", "_lease")

    durable: "asyncio.Future[None]"

    def __init__(
        self, intake: Intake, account_id: str, records: int, lease: BodyLease, headers: Mapping[str, str]
    ) -> None:
        self.headers = headers
        """The headers with the remaining quota."""
        self._intake = intake
        self._account_id = account_id
        self._records = records
        self._lease = lease

    def finish(self) -> None:
        """Count the record, once `durable` is done. Raises `Unavailable` if it may not be durable."""
        if (error := self.durable.exception()) is not None:
            self.give_up()
            raise _refusal(error) from error
        self._lease.release()
        self._intake.metrics.events_accepted += self._records

    def give_up(self) -> None:
        """Return the tokens that the request took."""
        self._lease.release()
        self._intake.admission.refund(self._account_id, self._records)


def _refusal(error: BaseException) -> Problem:
    if isinstance(error, RecordTooLarge):
        return PayloadTooLarge(
            "The brokers accept no record of this size. Send smaller batches; the operator can raise max.message.bytes."
        )
    if isinstance(error, LogFull):
        return Unavailable("The event log is full. Nothing was stored; send it again.", retry_after=5)
    return Unavailable("The event log cannot be written. Send the same request again.")


def now_ms() -> int:
    """Return milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000
