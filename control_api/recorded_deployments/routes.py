"""`POST /v1/deployments` with an ingest key."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import ingest_key
from control_api.database import Session
from control_api.json_body import read_json_body
from control_api.projects.operations import OpenedEnvironment
from control_api.recorded_deployments.operations import describe_recorded, record_deployment
from control_api.recorded_deployments.read_report import read_report

router = APIRouter(tags=["Monitoring"])


@router.post("/v1/deployments", status_code=201)
async def record(
    request: Request,
    response: Response,
    environment: Annotated[OpenedEnvironment, Depends(ingest_key)],
    session: Session,
) -> dict[str, Any]:
    """Record a deployment on the environment's timeline: 201 when it is new, 200 when its ID was reported before; then
    the first report stands."""
    report = read_report(await read_json_body(request))
    deployment, is_new = await record_deployment(session, environment.public_id, report, datetime.now(UTC))
    response.status_code = 201 if is_new else 200
    return {"data": describe_recorded(deployment, environment.public_id)}
