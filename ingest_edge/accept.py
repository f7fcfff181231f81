"""The hot path: one ingest request from its head to a durable 202."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDictProxy

from ingest_edge.accelerator import Accelerator
from ingest_edge.body import check_content_type
from ingest_edge.decoders.telemetry import read_batch
from ingest_edge.fast_path import Answer, Begun, Complete, refuse
from ingest_edge.intake import AcceptedHead, Intake, now_ms
from ingest_edge.responses import json_response
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import Problem
from pipeline_contracts.identifiers import receipt_name, seal_receipt
from pipeline_contracts.records import BatchMeta, encode_meta
from storage_backends.key_directory.interface import KeyEntry


@dataclass(slots=True)
class Accept:
    """The handler of `POST /v1/ingest`."""

    intake: Intake
    receipt_key: bytes
    accelerator: Accelerator | None = None

    async def ingest(self, request: web.BaseRequest) -> web.StreamResponse:
        """Validate the body, append its bytes to the log, and respond with a receipt."""
        received_ms = now_ms()
        key = await self.intake.authenticate(request, CredentialKind.INGEST_KEY, received_ms)
        check_content_type(request.headers.get(hdrs.CONTENT_TYPE))
        lease = self.intake.budgets.telemetry.lease(key.account_id)
        try:
            body = await self.intake.read(request, self.intake.limits, lease)
            return await self._store(key, body, received_ms)
        finally:
            lease.release()

    def begin(self, headers: "CIMultiDictProxy[str]") -> Complete | None:
        """Begin an ingest request on the fast path (see `fast_path`). Return None if it takes the usual path."""
        received_ms = now_ms()
        if headers.get(hdrs.CONTENT_TYPE) != "application/json":
            return None
        head = self.intake.accept_head_now(headers, received_ms)
        return None if head is None else partial(self._complete, head)

    def _complete(self, head: AcceptedHead, sent: bytes) -> Begun | None:
        key, coding, received_ms = head
        try:
            body = self.intake.unpack_now(sent, coding, self.intake.limits)
            if body is None:
                return None
            batch = self._read_batch(key, body, received_ms)
            # Build these before the append: a request that failed after it would be stored, and then begin again on the
            # usual path.
            receipt = self._receipt(key, batch)
            storing = self.intake.store_now(
                key, batch.events, topics.TELEMETRY, batch.name.encode(), batch.meta, batch.body
            )
        except Problem:
            self.intake.prefer_usual_path(key.account_id)
            return None
        if storing is None:
            return None
        return Begun(
            storing.durable,
            storing.finish,
            Answer(202, "application/json", storing.headers, receipt),
            refuse,
        )

    async def _store(self, key: KeyEntry, body: bytes, received_ms: int) -> web.Response:
        batch = self._read_batch(key, body, received_ms)
        headers = await self.intake.store(
            key, batch.events, topics.TELEMETRY, batch.name.encode(), batch.meta, batch.body
        )
        return json_response(202, self._receipt(key, batch), headers)

    def _read_batch(self, key: KeyEntry, body: bytes, received_ms: int) -> "_Batch":
        batch_id, events, body = read_batch(body, self.intake.limits, self.accelerator)
        meta = BatchMeta(key.account_id, key.project_id, key.environment_id, received_ms, events, batch_id)
        name = receipt_name(key.environment_id, batch_id)
        return _Batch(batch_id, events, name, encode_meta(meta), body)

    def _receipt(self, key: KeyEntry, batch: "_Batch") -> bytes:
        receipt_id = seal_receipt(batch.name, key.environment_id, self.receipt_key)
        return _receipt_body(receipt_id, batch.batch_id, batch.events)


class _Batch(NamedTuple):
    """A valid batch: the ID for its receipt, and its record."""

    batch_id: str
    events: int
    name: str
    meta: bytes
    body: bytes


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
