"""The hot path: one ingest request from its head to a durable 202."""

from dataclasses import dataclass

import orjson
from aiohttp import hdrs, web

from ingest_edge.body import check_content_type
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.intake import Intake, now_ms
from ingest_edge.responses import json_response
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.identifiers import receipt_name, seal_receipt
from pipeline_contracts.records import BatchMeta, encode_meta
from storage_backends.key_directory.interface import KeyEntry


@dataclass(slots=True)
class Accept:
    """The handler of `POST /v1/ingest`."""

    intake: Intake
    receipt_key: bytes

    async def ingest(self, request: web.BaseRequest) -> web.StreamResponse:
        """Append the bytes of the body to the log, once they are valid, and respond with a receipt."""
        received_ms = now_ms()
        key = await self.intake.authenticate(request, CredentialKind.INGEST_KEY, received_ms)
        check_content_type(request.headers.get(hdrs.CONTENT_TYPE))
        lease = self.intake.budgets.telemetry.lease(key.account_id)
        try:
            body = await self.intake.read(request, self.intake.limits, lease)
            return await self._store(key, body, received_ms)
        finally:
            lease.release()

    async def _store(self, key: KeyEntry, body: bytes, received_ms: int) -> web.Response:
        batch, body = decode_batch(body, self.intake.limits)
        count = len(batch.events)
        batch_id = batch.batch_id
        # The decoded events are no longer needed: only the body is stored.
        del batch
        name = receipt_name(key.environment_id, batch_id)
        meta = encode_meta(
            BatchMeta(key.account_id, key.project_id, key.environment_id, received_ms, count, batch_id)
        )
        headers = await self.intake.store(key, count, topics.TELEMETRY, name.encode(), meta, body)
        receipt_id = seal_receipt(name, key.environment_id, self.receipt_key)
        return json_response(202, _receipt_body(receipt_id, batch_id, count), headers)


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
