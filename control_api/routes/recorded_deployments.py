"""`POST /v1/deployments` with an ingest key."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import ingest_key
from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.request_session import Session, end_transaction
from control_api.requests.deployment_report import read_report
from control_api.requests.json_body import check_after_body, read_json_body
from control_domain.projects.operations import KeyEnvironment
from control_domain.recorded_deployments.operations import describe_recorded, record_deployment

router = APIRouter(prefix="/api", tags=["Monitoring"])


@router.post("/v1/deployments", status_code=201)
async def record(
    request: Request, environment: Annotated[KeyEnvironment, Depends(ingest_key)], session: Session
) -> Response:
    """Record a deployment on the environment's timeline: 201 if it is new; 200 if its ID was reported before, with the
    first report unchanged."""
    await end_transaction(session)
    check_after_body(request, partial(ingest_key, request, session))
    body = await read_json_body(request)
    report = read_report(body)

    async def store() -> RouteResponse:
        deployment, is_new = await record_deployment(
            session, environment.public_id, report, datetime.now(UTC)
        )
        return 201 if is_new else 200, {"data": describe_recorded(deployment, environment.public_id)}

    return await respond_idempotently(request, session, environment.public_id, body, store)
