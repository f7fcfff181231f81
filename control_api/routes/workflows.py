"""`PUT /v1/projects/{project}/workflow`."""

from typing import Annotated, Any

from fastapi import APIRouter

from control_api.document_errors import converting_document_faults
from control_api.operations.access import At, at
from control_api.requests.deploy_bodies import read_workflow_text
from control_domain.accounts.roles import Right
from control_domain.projects.find import find_project
from control_domain.tables.projects import Project
from control_domain.workflows import operations
from control_domain.workflows.document import to_json

router = APIRouter(prefix="/api", tags=["Deploy"])

_Deploy = Annotated[At[Project], at(find_project, "project", "deploy:write", Right.DEPLOY)]


@router.put("/v1/projects/{project}/workflow")
async def set_workflow(at: _Deploy) -> dict[str, Any]:
    """Make this document the project's workflow, from its next deployment on."""
    text = await at.read_body(read_workflow_text)
    with converting_document_faults("workflow"):
        _, document = await operations.set_workflow(at.session, at.found, text, at.actor, at.now)
    return {"data": to_json(document)}
