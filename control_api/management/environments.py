"""Environments: `/v1/projects/{project}/environments` and `/v1/environments/{environment}`."""

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_sorted_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.deployments.environment_overviews import EnvironmentOverview, list_overviews
from control_domain.environments.change import (
    MAX_ORDER,
    NewEnvironment,
    SettingChanges,
    add_environment,
    change_environment,
    remove_lock,
    set_lock,
)
from control_domain.environments.describe import (
    ChangedEnvironment,
    EnvironmentDetails,
    RemovedEnvironmentDocument,
    ResumedEnvironment,
    describe_settings,
    list_details,
    list_environments,
    read_details,
    select_settings,
)
from control_domain.environments.operations import lock_deployer_lease, lock_environment_row, resume_pushes
from control_domain.projects.find import DeployTarget, find_environment, find_project
from control_domain.removals.remove_environment import remove_ungated_environment
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from pipeline_contracts.errors import (
    Conflict,
    DeployNotAllowed,
    DeployRunning,
    NameTaken,
    NotFound,
    SecondPersonRequired,
)
from pipeline_contracts.git_refs import LONGEST_REF

operations = OperationRouter("Projects")

_Account = Annotated[At[Account], at_account("deploy:read")]
_ReadProject = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]
_ManageProject = Annotated[At[Project], at(find_project, "project", "projects:write", Right.MANAGE)]
_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:read", Right.READ)]
_Deploy = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:write", Right.DEPLOY)]
_Manage = Annotated[At[DeployTarget], at(find_environment, "environment", "projects:write", Right.MANAGE)]

Name = Annotated[str, Meta(min_length=1, max_length=100, description="1 to 100 printable characters.")]
Slug = Annotated[
    str,
    Meta(
        max_length=60,
        description="The short name in URLs, commands and documents: a-z, 0-9 and single hyphens, with a letter.",
        examples=["production"],
    ),
]
LastingType = Annotated[
    Literal["production", "staging", "development"],
    Meta(description="Create a preview with `POST /v1/projects/{project}/previews` instead."),
]
Order = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_ORDER,
        description="Deployments are promoted to environments of a higher order. By default it is 0 for previews, 1 "
        "for development, 2 for staging and 3 for production.",
    ),
]
Branch = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_REF,
        description="The branch that is deployed, in place of the repository's.",
        examples=["main"],
    ),
]
Window = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="Days, hours and a time zone (by default UTC) in which the environment accepts deploys.",
        examples=["mon-thu 09:00-16:00 Europe/Oslo"],
    ),
]
Reason = Annotated[
    str, Meta(min_length=1, max_length=500, description="For others to read: 1 to 500 printable characters.")
]


class CreateEnvironment(Struct, kw_only=True):
    """A new environment."""

    name: Name
    type: LastingType
    slug: Slug | None = None
    order: Order | None = None
    branch: Branch | None = None


class ChangeApproval(Struct, kw_only=True):
    """The kinds of changes that need a second person. Members that are left out stay unchanged."""

    deploys: Annotated[bool | None, Meta(description="Whether deploys wait.")] = None
    variables: Annotated[
        bool | None, Meta(description="Whether changes of variables wait for a second person.")
    ] = None


class UpdateEnvironment(Struct, kw_only=True):
    """The settings of an environment that change. `null` removes a branch or a window."""

    name: Name | None = None
    order: Order | None = None
    branch: Branch | None | UnsetType = UNSET
    window: Window | None | UnsetType = UNSET
    approval: ChangeApproval | None = None
    wake_on_request: Annotated[
        bool | None, Meta(description="Whether a request wakes it from hibernation.")
    ] = None

    def to_changes(self) -> SettingChanges:
        approval = self.approval or ChangeApproval()
        return SettingChanges(
            name=_unless_absent(self.name),
            order=_unless_absent(self.order),
            branch=self.branch,
            window=self.window,
            deploys_need_approval=_unless_absent(approval.deploys),
            variables_need_approval=_unless_absent(approval.variables),
            wake_on_request=_unless_absent(self.wake_on_request),
        )


def _unless_absent(value: Any) -> Any:
    return UNSET if value is None else value


class EnvironmentFilter(PageQuery, kw_only=True):
    """Filters of environments."""

    project: Annotated[
        str | None, Meta(description="Only environments of this project: its string ID, or its number.")
    ] = None


class LockEnvironment(Struct, kw_only=True):
    """A lock, which refuses deployments."""

    reason: Reason


@operations.get("/v1/environments", problems=[NotFound, DeployNotAllowed])
async def list_all_environments(
    at: _Account, filters: Annotated[EnvironmentFilter, query(EnvironmentFilter)]
) -> PageOf[EnvironmentOverview]:
    """List environments with their releases.

    The environments of all projects that you may read, the newest project first, and within a project in the order in
    which deployments are promoted. Each has its address, its processes, and its live and newest deployments.
    """
    project = None
    if filters.project is not None:
        project = await find_project(at.session, at.caller, filters.project, Right.READ)
    pages = read_sorted_pages(at, filters, f"all environments for {at.caller.person.public_id}")
    found = await list_overviews(at.session, at.caller, project, pages.limit, pages.after)
    return pages.answer(found.items, found.last_key)


@operations.get("/v1/projects/{project}/environments")
async def list_project_environments(
    at: _ReadProject, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[EnvironmentDetails]:
    """List the environments of a project.

    In the order in which deployments are promoted, including previews.
    """
    pages = read_sorted_pages(at, page, f"environments of {at.found.public_id}")
    found = await list_environments(at.session, at.found, pages.limit, pages.after)
    return pages.answer(await list_details(at.session, found.targets), found.last_key)


@operations.post("/v1/projects/{project}/environments", status=201, problems=[NameTaken, Conflict])
async def create_environment(
    at: _ManageProject, body: Annotated[CreateEnvironment, json_body(CreateEnvironment)]
) -> EnvironmentDetails:
    """Create an environment.

    Without variables and keys. Its slug is made from the name unless it is given.
    """
    new = NewEnvironment(body.name, body.type, body.slug, body.order, body.branch)
    target = await add_environment(at.session, at.found, new, at.actor, at.now)
    return await read_details(at.session, target)


@operations.get("/v1/environments/{environment}", etag=select_settings)
async def read_environment(at: _Read) -> EnvironmentDetails:
    """Read an environment."""
    return await read_details(at.session, at.found)


@operations.patch("/v1/environments/{environment}", etag=select_settings, problems=[SecondPersonRequired])
async def update_environment(
    at: _Manage, body: Annotated[UpdateEnvironment, json_body(UpdateEnvironment)]
) -> ChangedEnvironment:
    """Change the settings of an environment.

    409 if the change lowers the gate of an environment that requires a second person: it removes an approval, or
    widens or removes the deploy window. Then one person makes a configuration review of the change, and another
    applies it. Turning the approval of deploys on also turns it on for previews with copies of the environment's
    variables.
    """
    await lock_environment_row(at.session, at.found.environment)
    at.check_if_match(cast(Any, describe_settings(at.found.environment)))
    gated = await change_environment(at.session, at.found, body.to_changes(), at.actor, at.now)
    return {**await read_details(at.session, at.found), "gated_previews": list(gated)}


@operations.delete(
    "/v1/environments/{environment}", problems=[DeployRunning, SecondPersonRequired], checks_if_match=True
)
async def delete_environment(at: _Manage) -> RemovedEnvironmentDocument:
    """Remove an environment.

    Removes it with its keys, variables, monitors and releases; its deployments and their logs are kept, and pending
    approvals are canceled. The edges refuse its keys within 5 s. 409 while a deployment of it is not finished, and if
    it requires a second person: then one person makes a configuration review, and another applies it.
    """
    # Lock the lease first, in the same order as the removal.
    await lock_deployer_lease(at.session, at.found.environment)
    await lock_environment_row(at.session, at.found.environment)
    at.check_if_match(cast(Any, describe_settings(at.found.environment)))
    removed = await remove_ungated_environment(at.session, at.found, at.actor, at.now)
    at.revoke_after_commit(removed.digests)
    environment = at.found.environment
    return {
        "id": environment.public_id,
        "name": environment.name,
        "slug": environment.slug,
        "removed": cast(Any, removed.counts),
    }


@operations.put("/v1/environments/{environment}/lock", problems=[Conflict])
async def lock_environment(
    at: _Deploy, body: Annotated[LockEnvironment, json_body(LockEnvironment)]
) -> EnvironmentDetails:
    """Lock an environment.

    A locked environment refuses deployments. 409 if it is locked already by another person or for another reason.
    """
    await set_lock(at.session, at.found, body.reason, at.actor, at.now)
    return await read_details(at.session, at.found)


@operations.delete("/v1/environments/{environment}/lock")
async def unlock_environment(at: _Deploy) -> EnvironmentDetails:
    """Unlock an environment.

    404 if it is not locked.
    """
    await remove_lock(at.session, at.found, at.actor, at.now)
    return await read_details(at.session, at.found)


@operations.post("/v1/environments/{environment}/resume")
async def resume_environment(at: _Deploy) -> ResumedEnvironment:
    """Resume pushes after a rollback.

    While a rollback is live, pushes do not deploy. After this request they do.
    """
    resumed = await resume_pushes(at.session, at.found, at.actor, at.now)
    return {**await read_details(at.session, at.found), "resumed": resumed}
