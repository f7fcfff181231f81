"""Deployments of projects and environments, releases, and decisions on deployments."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from control_api.management.environments import Reason
from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.deployments import decisions
from control_domain.deployments.details import (
    DeploymentDetails,
    list_environment_deployments,
    list_project_deployments,
    read_details,
)
from control_domain.deployments.find import FoundDeployment, find_deployment_of_caller, get_environment
from control_domain.deployments.inputs import MIN_DIGEST_LENGTH
from control_domain.deployments.overview import DeploymentOverview, read_overview
from control_domain.deployments.releases import ReleaseDocument, list_releases
from control_domain.projects.find import DeployTarget, find_environment, find_project
from control_domain.slugs import check_reason
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project
from pipeline_contracts.deploy_states import DeploymentStatus, ForbiddenTransition
from pipeline_contracts.errors import (
    CommitUnknown,
    Conflict,
    DeployRunning,
    EnvironmentLocked,
    EnvironmentNotReady,
    InputsChanged,
    OutsideWindow,
    SecondPersonRequired,
    invalid_field,
)
from pipeline_contracts.git_refs import is_commit

operations = OperationRouter("Deploy")

_ReadProject = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]
_ReadEnvironment = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:read", Right.READ)]
_Read = Annotated[At[FoundDeployment], at(find_deployment_of_caller, "build", "deploy:read", Right.READ)]
_Deploy = Annotated[At[FoundDeployment], at(find_deployment_of_caller, "build", "deploy:write", Right.DEPLOY)]
_Decide = Annotated[At[FoundDeployment], at(find_deployment_of_caller, "build", "deploy:write", Right.DECIDE)]

_DIGEST = re.compile(f"[0-9a-f]{{{MIN_DIGEST_LENGTH},64}}")
Revision = Annotated[
    str,
    Meta(
        min_length=40,
        max_length=64,
        description="The whole commit that the approver has reviewed: 40 or 64 hexadecimal digits. "
        "Required while Pharos does not know the commit.",
        extra={"rule": "must be a whole commit of 40 or 64 hexadecimal digits"},
    ),
]
Digest = Annotated[
    str,
    Meta(
        min_length=MIN_DIGEST_LENGTH,
        max_length=64,
        description="The digest of `GET /v1/approvals` that the approver has reviewed, or 16 or more of its first "
        "digits. Required if something changed since the deployment was requested.",
        extra={"rule": f"must be {MIN_DIGEST_LENGTH} to 64 hexadecimal digits"},
    ),
]


class DeploymentsQuery(PageQuery, kw_only=True):
    """Filters of deployments."""

    status: Annotated[DeploymentStatus | None, Meta(description="Only deployments with this status.")] = None


class ApproveDeployment(Struct, kw_only=True):
    """The inputs that the approver has reviewed."""

    revision: Revision | None = None
    digest: Digest | None = None


class RejectDeployment(Struct, kw_only=True):
    """The reason for rejecting a deployment."""

    reason: Reason


@operations.get("/v1/projects/{project}/deployments")
async def list_deployments_of_project(
    at: _ReadProject, params: Annotated[DeploymentsQuery, query(DeploymentsQuery)]
) -> PageOf[DeploymentDetails]:
    """List the deployments of a project.

    The newest first, including those of removed environments.
    """
    pages = read_pages(at, params, f"deployments of {at.found.public_id}")
    found, has_more = await list_project_deployments(at.session, at.found, params.status, pages.page)
    return pages.answer(found, found[-1]["id"] if has_more else None)


@operations.get("/v1/deployments/{build}/details")
async def read_deployment_details(at: _Read) -> DeploymentOverview:
    """Read a deployment with its steps.

    Includes the people, the commit, the start of each step, and whether the release is live or can be made live again.
    """
    return await read_overview(at.session, at.found)


@operations.get("/v1/environments/{environment}/deployments")
async def list_deployments_of_environment(
    at: _ReadEnvironment, params: Annotated[DeploymentsQuery, query(DeploymentsQuery)]
) -> PageOf[DeploymentDetails]:
    """List the deployments of an environment.

    The newest first.
    """
    pages = read_pages(at, params, f"deployments of {at.found.environment.public_id}")
    found, has_more = await list_environment_deployments(
        at.session, at.found.environment, at.account.id, params.status, pages.page
    )
    return pages.answer(found, found[-1]["id"] if has_more else None)


@operations.get("/v1/environments/{environment}/releases")
async def list_releases_of_environment(
    at: _ReadEnvironment, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ReleaseDocument]:
    """List the releases of an environment.

    The retained releases, the newest first. A rollback to its deployment makes a release live again.
    """
    pages = read_pages(at, page, f"releases of {at.found.environment.public_id}")
    return pages.answer(*await list_releases(at.session, at.found.environment, pages.page))


@contextmanager
def _refusing(deployment: Deployment, rule: str) -> Iterator[None]:
    """Raise `Conflict` for a deployment whose status does not allow the decision."""
    try:
        yield
    except ForbiddenTransition as error:
        status = error.current.replace("_", " ")
        verb = "has" if error.current in ("succeeded", "failed") else "is"
        raise Conflict(f"Deployment {deployment.id} {verb} {status}: {rule}") from error


@operations.post(
    "/v1/deployments/{build}/approve",
    problems=[
        Conflict,
        CommitUnknown,
        InputsChanged,
        SecondPersonRequired,
        DeployRunning,
        EnvironmentLocked,
        OutsideWindow,
        EnvironmentNotReady,
    ],
)
async def approve_deployment(
    at: _Decide, body: Annotated[ApproveDeployment, json_body(ApproveDeployment, is_optional=True)]
) -> DeploymentDetails:
    """Approve a deployment.

    Queues a deployment that waits. The approval covers the commit, the variables and the workflow: the deployment runs
    exactly these. The approver must be neither the person who requested the deployment nor the author of a later
    change of the variables or the workflow.
    """
    revision, digest = _read_reviewed(body)
    with _refusing(at.found.deployment, "only a deployment that waits for approval can be approved."):
        await decisions.approve_deployment(
            at.session,
            at.found.deployment,
            get_environment(at.found),
            at.caller.person,
            revision,
            at.actor,
            at.now,
            digest,
        )
    return await read_details(at.session, at.found.deployment)


def _read_reviewed(body: ApproveDeployment) -> tuple[str | None, str | None]:
    """Return revision and digest in lower case. Raises `InvalidInput`."""
    revision = None if body.revision is None else body.revision.lower()
    if revision is not None and not is_commit(revision):
        raise invalid_field("revision", "must be a whole commit of 40 or 64 hexadecimal digits")
    digest = None if body.digest is None else body.digest.lower()
    if digest is not None and _DIGEST.fullmatch(digest) is None:
        raise invalid_field("digest", f"must be {MIN_DIGEST_LENGTH} to 64 hexadecimal digits")
    return revision, digest


@operations.post("/v1/deployments/{build}/reject", problems=[Conflict, SecondPersonRequired])
async def reject_deployment(
    at: _Decide, body: Annotated[RejectDeployment, json_body(RejectDeployment)]
) -> DeploymentDetails:
    """Reject a deployment.

    Ends a deployment that waits for approval. The person who requested it cancels it instead.
    """
    reason = check_reason(body.reason)
    with _refusing(at.found.deployment, "only a deployment that waits for approval can be rejected."):
        await decisions.reject_deployment(
            at.session, at.found.deployment, at.caller.person, reason, at.actor, at.now
        )
    return await read_details(at.session, at.found.deployment)


@operations.post("/v1/deployments/{build}/cancel", problems=[Conflict])
async def cancel_deployment(at: _Deploy) -> DeploymentDetails:
    """Cancel a deployment.

    The deployment must be queued, wait for approval, or be in its build. 409 once it is past its build.
    """
    deployment = at.found.deployment
    with _refusing(
        deployment, "only a deployment that is queued, waits for approval or is being built can be canceled."
    ):
        await decisions.cancel_deployment(at.session, deployment, at.actor, at.now)
    return await read_details(at.session, deployment)
