"""Previews: environments for one branch or pull request."""

from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.previews.describe import (
    OpenedPreview,
    PreviewDocument,
    RemovedPreview,
    describe_opened,
    describe_previews,
    find_preview,
    list_previews,
)
from control_domain.previews.requests import close_requested_preview, open_requested_preview
from control_domain.projects.describe import summarize_environment
from control_domain.projects.find import find_project
from control_domain.tables.projects import Project
from pipeline_contracts.errors import (
    Conflict,
    DeployRunning,
    EnvironmentLocked,
    EnvironmentNotReady,
    OutsideWindow,
)
from pipeline_contracts.git_refs import LONGEST_REF

operations = OperationRouter("Deploy")

_Read = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]
_Deploy = Annotated[At[Project], at(find_project, "project", "deploy:write", Right.DEPLOY)]


class OpenPreview(Struct, kw_only=True):
    """A preview to open."""

    branch: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_REF,
            description="The branch that it deploys.",
            examples=["login"],
        ),
    ]
    variables_from: Annotated[
        str | None,
        Meta(
            description="An environment of the project, not a preview, by its string ID or number. "
            "The preview gets its variables except protected ones. If its deploys need approvals, "
            "the preview's deploys then do too."
        ),
    ] = None


@operations.get("/v1/projects/{project}/previews")
async def list_project_previews(
    at: _Read, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[PreviewDocument]:
    """List the previews of a project.

    Newest first, including previews of pull requests.
    """
    pages = read_pages(at, page, f"previews of {at.found.public_id}")
    found, has_more = await list_previews(at.session, at.found, pages.page)
    documents = await describe_previews(at.session, at.found, found)
    return pages.answer(documents, found[-1].id if has_more else None)


@operations.post(
    "/v1/projects/{project}/previews",
    status=202,
    problems=[Conflict, DeployRunning, EnvironmentLocked, OutsideWindow, EnvironmentNotReady],
)
async def open_preview(at: _Deploy, body: Annotated[OpenPreview, json_body(OpenPreview)]) -> OpenedPreview:
    """Open a preview of a branch.

    Creates the preview of the branch, unless it exists, and queues a deployment of it, unless a deployment of the
    branch is queued already. 409 while another deployment of the preview is active, and if variables would be copied
    to a preview whose variables need approvals.
    """
    target, deployment = await open_requested_preview(
        at.session, at.sealing_keys, at.found, body.branch, body.variables_from, at.actor, at.now
    )
    return await describe_opened(at.session, target, deployment)


@operations.delete("/v1/projects/{project}/previews/{environment}", problems=[Conflict])
async def close_preview(at: _Deploy) -> RemovedPreview:
    """Close a preview.

    Removes the environment with its keys, monitors and variables; a queued or building deployment is canceled. If its
    deploys or variables need approvals, the caller needs the role maintainer. 409 while a deployment is past its build.
    """
    target = await find_preview(at.session, at.found, at.text("environment"))
    removed = await close_requested_preview(at.session, at.caller, target, at.actor, at.now)
    at.revoke_after_commit(removed.digests)
    counts = removed.counts
    return {
        **summarize_environment(target.environment),
        "branch": target.environment.branch,
        "removed": {
            "keys": counts["keys"],
            "heartbeats": counts["heartbeats"],
            "queues": counts["queues"],
            "canceled": counts["canceled"],
        },
    }
