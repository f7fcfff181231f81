"""`GET /v1/ingest/receipts/{receipt}`."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from analytics_queries.receipt_status import receipt_status
from control_api.authentication import ingest_key
from control_domain.projects.operations import KeyEnvironment
from pipeline_contracts.errors import NotFound, StorageUnavailable, Unavailable
from pipeline_contracts.identifiers import open_receipt
from pipeline_contracts.times import format_time

router = APIRouter(prefix="/api", tags=["Monitoring"])


@router.get("/v1/ingest/receipts/{receipt}")
async def read_receipt(
    receipt: str, request: Request, environment: Annotated[KeyEnvironment, Depends(ingest_key)]
) -> dict[str, Any]:
    """Return the processing status of a batch.

    The seal in the ID distinguishes a valid receipt whose batch is not stored yet (`queued`, counts null) from an
    invented receipt or a receipt of another environment (404).
    """
    name = open_receipt(receipt, environment.public_id, request.app.state.receipt_key)
    if name is None:
        raise NotFound("No batch of this environment has this receipt.")
    try:
        status = await receipt_status(request.app.state.column_store, environment.public_id, name)
    except StorageUnavailable as error:
        raise Unavailable("The column store does not answer now.") from error
    if status is None:
        empty = dict.fromkeys(
            ["batch_id", "received", "stored", "duplicates", "clamped", "received_at", "stored_at"]
        )
        return {"data": {"id": receipt, "status": "queued", **empty, "errors": []}}
    return {
        "data": {
            "id": receipt,
            "batch_id": status.batch_id,
            "status": status.status,
            "received": status.received,
            "stored": status.stored,
            "duplicates": status.duplicates,
            "clamped": status.clamped,
            "received_at": format_time(status.received_at),
            "stored_at": None if status.stored_at is None else format_time(status.stored_at),
            "errors": status.errors,
        }
    }
