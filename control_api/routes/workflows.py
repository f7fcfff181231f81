"""`PUT /v1/projects/{project}/workflow`."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from control_api.authentication import actor_of, api_token
from control_api.document_errors import converting_document_faults
from control_api.request_session import Session, end_transaction
from control_api.requests.deploy_bodies import read_workflow_text
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.projects.find import find_project
from control_domain.workflows import operations
from control_domain.workflows.document import to_json

router = APIRouter(tags=["Deploy"])

_Writer = Annotated[Caller, Depends(api_token("deploy:write"))]


@router.put("/v1/projects/{project}/workflow")
async def set_workflow(project: str, request: Request, caller: _Writer, session: Session) -> dict[str, Any]:
    """Make this document the project's workflow, from its next deployment on."""
    found = await find_project(session, caller, project, Right.DEPLOY)
    await end_transaction(session)
    text = await read_workflow_text(request)
    actor, now = actor_of(request, caller), datetime.now(UTC)
    with converting_document_faults("workflow"):
        _, document = await operations.set_workflow(session, found, text, actor, now)
    return {"data": to_json(document)}
