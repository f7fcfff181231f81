"""Projects as an operator handles them: made, listed, shown, removed, and opened to people."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import summarize_account, summarize_person
from control_domain.accounts.members import Member, lock_member
from control_domain.accounts.roles import PROJECT_ROLES, sees_all_projects
from control_domain.audit import make_operator, record_audit_entry
from control_domain.projects.describe import describe_project, summarize_project
from control_domain.projects.listing import ListedEnvironment, read_environments, read_project
from control_domain.projects.operations import create_project, grant_role, revoke_role
from control_domain.projects.resolve import resolve_account, resolve_project
from control_domain.refusals import Refused
from control_domain.removals.remove_project import remove_project
from control_domain.repositories.operations import find_connected_repository
from control_domain.slugs import read_name, read_slug
from control_domain.tables.accounts import Account, Person
from control_domain.tables.projects import Project, ProjectRole
from control_domain.tables.sites import Site
from operator_actions.actions.engines import Action, Engines, Params
from pipeline_contracts.times import format_time


async def _list_projects(engines: Engines, params: Params, now: datetime) -> Sequence[dict[str, Any]]:
    """The projects of the account, or all, with their environments. `params`: account_id."""
    called = params.get("account_id")
    query = select(Project, Account).join(Account, Account.id == Project.account_id).order_by(Project.id)
    async with engines.sessions() as session:
        if called is not None:
            query = query.where(Project.account_id == (await resolve_account(session, called)).id)
        accounts = dict((await session.execute(query)).all())
        listed = await read_environments(session, list(accounts))
    return [_describe(project, environments, accounts[project]) for project, environments in listed]


def _describe(
    project: Project, environments: Sequence[ListedEnvironment], account: Account
) -> dict[str, Any]:
    """As the public API has it, and whose it is; `number` is the numeric ID."""
    return {
        **describe_project(project, environments),
        "number": project.id,
        "account": summarize_account(account),
        "created_at": format_time(project.created_at),
    }


async def _show_project(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """One project with its `repository` (null where none is connected), its sites, and the people who have a role in
    it. `params`: id."""
    async with engines.sessions() as session:
        project = await resolve_project(session, params.get("id"))
        account = await session.get_one(Account, project.account_id)
        _, environments = await read_project(session, project)
        repository = await find_connected_repository(session, project.id)
        sites = select(Site).where(Site.project_id == project.id).order_by(Site.id)
        return {
            **_describe(project, environments, account),
            "repository": None
            if repository is None
            else {
                "id": repository.id,
                "kind": repository.kind,
                "url": repository.url,
                "branch": repository.branch,
            },
            "sites": [
                {"id": site.id, "name": site.name, "tracker_id": site.public_id}
                for site in (await session.execute(sites)).scalars()
            ],
            "people": await _people(session, project),
        }


async def _people(session: AsyncSession, project: Project) -> Sequence[dict[str, Any]]:
    query = (
        select(Person, ProjectRole.role)
        .join(ProjectRole, ProjectRole.person_id == Person.id)
        .where(ProjectRole.project_id == project.id)
        .order_by(Person.email)
    )
    return [{**summarize_person(person), "role": role} for person, role in await session.execute(query)]


async def _create_project(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """A new project without environments. `params`: name, slug (made from the name), account_id."""
    name = read_name(params)
    slug = read_slug(params, name)
    try:
        async with engines.sessions() as session, session.begin():
            account = await resolve_account(session, params.get("account_id"))
            project = await create_project(session, account, name, slug, now)
            _record(session, params, project, "project.create", now, {"slug": slug})
    except IntegrityError:
        raise Refused(
            f"The account has a project of the slug {slug!r} already: choose another with --slug."
        ) from None
    return _describe(project, [], account)


def _record(
    session: AsyncSession,
    params: Params,
    project: Project,
    action: str,
    now: datetime,
    details: Mapping[str, Any],
) -> None:
    subject = f"project {project.public_id}"
    record_audit_entry(session, make_operator(params), project.account_id, action, subject, now, details)


async def _grant(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Give a member of the project's account a role in it, in place of the one before. `params`: id, email, role."""
    role = str(params.get("role") or "")
    if role not in PROJECT_ROLES:
        raise Refused(f"{role!r} is no role in a project: choose one of {', '.join(PROJECT_ROLES)}.")
    async with engines.sessions() as session, session.begin():
        project, member = await _hold(session, params)
        was = await grant_role(session, project, member.person, role)
        if was != role:
            details = {"person": member.person.public_id, "from": was, "to": role}
            _record(session, params, project, "project.grant", now, details)
    told = {**summarize_project(project), "person": summarize_person(member.person), "role": role}
    if not sees_all_projects(member.role):
        return told
    anyway = f"{member.person.email} is {member.role} of the account and may do everything in it anyway."
    return {**told, "warning": anyway}


async def _hold(session: AsyncSession, params: Params) -> tuple[Project, Member]:
    """The project and the member of its account: neither leaves until the end of the transaction."""
    project = await resolve_project(session, params.get("id"))
    account = await session.get_one(Account, project.account_id)
    member = await lock_member(session, account, str(params["email"]))
    return await resolve_project(session, project.public_id), member


async def _revoke(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Take somebody's role in a project. `params`: id, email."""
    async with engines.sessions() as session, session.begin():
        project, member = await _hold(session, params)
        was = await revoke_role(session, project, member.person)
        if was is None:
            raise Refused(
                f"{member.person.email} has no role in the project {project.slug}: "
                f"`pharos project show {project.slug}` lists who has."
            )
        details = {"person": member.person.public_id, "from": was}
        _record(session, params, project, "project.revoke", now, details)
    return {**summarize_project(project), "person": summarize_person(member.person), "role": None}


async def _remove_project(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Remove a project that has neither environments nor sites. `params`: id."""
    async with engines.sessions() as session, session.begin():
        project = await resolve_project(session, params.get("id"))
        account = await session.get_one(Account, project.account_id)
        count = await remove_project(session, account, project, make_operator(params), now)
    return {**summarize_project(project), "removed": True, "deployments_removed": count}


ACTIONS: Mapping[str, Action] = {
    "projects/list": _list_projects,
    "projects/show": _show_project,
    "projects/create": _create_project,
    "projects/grant": _grant,
    "projects/revoke": _revoke,
    "projects/remove": _remove_project,
}
