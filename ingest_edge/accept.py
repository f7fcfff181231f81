"""The hot path: one ingest request from its head to a durable 202."""

import time
from dataclasses import dataclass

import orjson
from aiohttp import hdrs, web

from ingest_edge.admission import Admission
from ingest_edge.answers import json_answer
from ingest_edge.authenticate import authenticate
from ingest_edge.body import (
    check_content_type,
    check_declared_length,
    content_coding,
    decompress,
    read_body,
)
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import InFlight, Limits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import LogFull, StorageUnavailable, Unavailable
from pipeline_contracts.identifiers import receipt_name, seal_receipt
from pipeline_contracts.records import BatchMeta, encode_meta
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry


@dataclass(slots=True)
class Accept:
    """What accepting needs. The methods are the handlers of the edge's routes."""

    directory: KeyDirectory
    log: EventLog
    admission: Admission
    limits: Limits
    in_flight: InFlight
    receipt_key: bytes
    metrics: EdgeMetrics

    async def ingest(self, request: web.BaseRequest) -> web.StreamResponse:
        """`POST /v1/ingest`. The body's own bytes go into the log; nothing is built from them here."""
        received_ms = time.time_ns() // 1_000_000
        headers = request.headers
        key = await authenticate(
            headers.get(hdrs.AUTHORIZATION), CredentialKind.INGEST_KEY, self.directory, received_ms
        )
        check_content_type(headers.get(hdrs.CONTENT_TYPE))
        coding = content_coding(headers.get(hdrs.CONTENT_ENCODING))
        check_declared_length(request.content_length, self.limits)
        reserved: list[int] = []
        try:
            sent = await read_body(request, self.limits, self.in_flight, reserved)
            body = decompress(sent, coding, self.limits.decompressed_bytes)
            if body is not sent:
                reserved.append(self.in_flight.reserve(len(body), sum(reserved)))
            return await self._store(key, body, received_ms)
        finally:
            for size in reserved:
                self.in_flight.release(size)

    async def _store(self, key: KeyEntry, body: bytes, received_ms: int) -> web.Response:
        batch = decode_batch(body, self.limits)
        count = len(batch.events)
        batch_id = batch.batch_id
        # The events have been validated; what goes on is the body.
        del batch
        headers = await self.admission.take(key.account_id, count, key.limit)
        name = receipt_name(key.environment_id, batch_id)
        meta = encode_meta(
            BatchMeta(key.account_id, key.project_id, key.environment_id, received_ms, count, batch_id)
        )
        try:
            await self.log.append(topics.TELEMETRY, name.encode(), meta, body)
        except LogFull as error:
            self.admission.give_back(key.account_id, count)
            raise Unavailable(
                "The event log is full. Nothing was stored; send it again.", retry_after=5
            ) from error
        except StorageUnavailable as error:
            self.admission.give_back(key.account_id, count)
            raise Unavailable("The event log cannot be written. Send the same batch again.") from error
        self.metrics.events_accepted += count
        receipt_id = seal_receipt(name, key.environment_id, self.receipt_key)
        return json_answer(202, _receipt_body(receipt_id, batch_id, count), headers)


def _receipt_body(receipt_id: str, batch_id: str, received: int) -> bytes:
    return orjson.dumps(
        {
            "data": {
                "id": receipt_id,
                "batch_id": batch_id,
                "status": "queued",
                "received": received,
                "url": f"/api/v1/ingest/receipts/{receipt_id}",
            }
        }
    )
