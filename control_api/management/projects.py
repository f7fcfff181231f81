"""Projects and the roles of people in them: `/v1/projects`."""

from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.operations import lock_account_row
from control_domain.accounts.roles import AccountRight, Right
from control_domain.projects.change import add_project, lock_project, rename_project
from control_domain.projects.describe import (
    ProjectDocument,
    RemovedProject,
    describe_project,
    summarize_project,
)
from control_domain.projects.find import find_project
from control_domain.projects.listing import read_project
from control_domain.projects.members import (
    ProjectMemberDocument,
    RoleName,
    describe_project_member,
    list_project_members,
    remove_project_role,
    set_project_role,
)
from control_domain.removals.remove_project import remove_project
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from pipeline_contracts.errors import Conflict, NameTaken

operations = OperationRouter("Projects")

_Account = Annotated[At[Account], at_account("projects:write", AccountRight.MANAGE)]
_Read = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]
_Manage = Annotated[At[Project], at(find_project, "project", "projects:write", Right.MANAGE)]

Name = Annotated[str, Meta(min_length=1, max_length=100, description="1 to 100 printable characters.")]
Slug = Annotated[
    str,
    Meta(
        max_length=60,
        description="The short name in URLs, commands and documents: a-z, 0-9 and single hyphens, with a letter.",
        examples=["web-shop"],
    ),
]


class CreateProject(Struct, kw_only=True):
    """A new project."""

    name: Name
    slug: Slug | None = None


class UpdateProject(Struct, kw_only=True):
    """The fields of a project that change."""

    name: Name | None = None


class SetRole(Struct, kw_only=True):
    """A role in a project."""

    role: Annotated[RoleName, Meta(description="The role in the project.")]


def _settings(document: ProjectDocument) -> dict[str, str]:
    return {"name": document["name"]}


@operations.post("/v1/projects", status=201, problems=[NameTaken, Conflict])
async def create_project(
    at: _Account, body: Annotated[CreateProject, json_body(CreateProject)]
) -> ProjectDocument:
    """Create a project.

    A project without environments. Its slug is made from the name unless it is given.
    """
    project = await add_project(at.session, at.account, body.name, body.slug, at.actor, at.now)
    return describe_project(project, [])


@operations.patch("/v1/projects/{project}", etag=_settings)
async def update_project(
    at: _Manage, body: Annotated[UpdateProject, json_body(UpdateProject)]
) -> ProjectDocument:
    """Rename a project.

    The slug stays, because URLs, commands and documents refer to it.
    """
    await lock_project(at.session, at.found)
    at.check_if_match({"name": at.found.name})
    if body.name is not None:
        await rename_project(at.session, at.found, body.name, at.actor, at.now)
        await at.session.refresh(at.found)
    return describe_project(*await read_project(at.session, at.found))


@operations.delete("/v1/projects/{project}", problems=[Conflict], checks_if_match=True)
async def delete_project(
    at: Annotated[At[Project], at(find_project, "project", "projects:write", Right.MANAGE)],
) -> RemovedProject:
    """Remove a project.

    Removes it with its deployments, repositories, workflow, configurations and roles. 409 while it has environments or
    sites.
    """
    # Lock the account first, in the same order as the removal.
    await lock_account_row(at.session, at.account)
    await lock_project(at.session, at.found)
    at.check_if_match({"name": at.found.name})
    count = await remove_project(at.session, at.account, at.found, at.actor, at.now)
    return {**summarize_project(at.found), "deployments": count}


@operations.get("/v1/projects/{project}/members")
async def list_members(
    at: _Read, page: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ProjectMemberDocument]:
    """List the members of a project.

    The people who have a role in the project. Owners and admins of the account are not listed unless they have one.
    """
    pages = read_pages(at, page, f"members of {at.found.public_id}")
    rows, has_more = await list_project_members(at.session, at.found, pages.page)
    return pages.answer(
        [describe_project_member(row) for row in rows], rows[-1].person.id if has_more else None
    )


@operations.put("/v1/projects/{project}/members/{person}")
async def set_member_role(at: _Manage, body: Annotated[SetRole, json_body(SetRole)]) -> ProjectMemberDocument:
    """Set a role in a project.

    Gives a member of the account a role in the project, in place of the former one.
    """
    await at.lock_rights()
    member = await set_project_role(
        at.session, at.account, at.found, at.text("person"), body.role, at.actor, at.now
    )
    return describe_project_member(member)


@operations.delete("/v1/projects/{project}/members/{person}")
async def remove_member_role(at: _Manage) -> ProjectMemberDocument:
    """Remove a role in a project."""
    member = await remove_project_role(at.session, at.account, at.found, at.text("person"), at.actor, at.now)
    return describe_project_member(member)
