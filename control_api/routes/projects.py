"""`GET /v1/projects` and `GET /v1/projects/{project}`."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from control_api.authentication import signed_in
from control_api.http.json_response import json_response
from control_api.request_session import Session
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.paging import Cursors, read_page
from control_domain.projects.describe import describe_project
from control_domain.projects.find import find_project
from control_domain.projects.listing import list_projects, read_project

router = APIRouter(prefix="/api", tags=["Deploy"])

_Reader = Annotated[Caller, Depends(signed_in("deploy:read"))]


@router.get("/v1/projects", response_model=None)
async def read_projects(request: Request, caller: _Reader, session: Session) -> Response:
    """Return the projects that the person can see in Deploy, newest first: all, or a page with `limit` or `cursor`."""
    cursors = Cursors(request.app.state.cursor_key, caller.account.public_id, "projects")
    page = read_page(request.query_params.multi_items(), cursors)
    rows, has_more = await list_projects(session, caller, page)
    document: dict[str, Any] = {"data": [describe_project(*row) for row in rows]}
    if page is not None:
        document["next_cursor"] = cursors.write(rows[-1][0].id) if has_more else None
    return json_response(document)


@router.get("/v1/projects/{project}", response_model=None)
async def read_project_by_id(project: str, caller: _Reader, session: Session) -> Response:
    """Return one project with its environments."""
    found = await find_project(session, caller, project, Right.READ)
    return json_response({"data": describe_project(*await read_project(session, found))})
