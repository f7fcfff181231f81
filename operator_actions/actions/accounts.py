"""Accounts as an operator handles them: made with an owner, listed, shown, and given limits."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import describe_account, summarize_person
from control_domain.accounts.members import add_member, list_members
from control_domain.accounts.operations import (
    DEFAULT_LIMIT,
    create_account,
    lock_account_row,
    set_ingest_limit,
)
from control_domain.audit import make_operator, record_audit_entry
from control_domain.keys import warn_if_unpublished
from control_domain.projects.describe import summarize_project
from control_domain.projects.resolve import resolve_account
from control_domain.published_keys import republish_account
from control_domain.refusals import Refused
from control_domain.slugs import read_name, read_slug
from control_domain.tables.accounts import Account, Membership
from control_domain.tables.projects import Project
from operator_actions.actions.engines import Action, Engines, Params
from operator_actions.actions.read_account import read_email, read_limit


async def _list_accounts(engines: Engines, params: Params, now: datetime) -> Sequence[dict[str, Any]]:
    """Every account, with how many people and projects it has."""
    async with engines.sessions() as session:
        accounts = (await session.execute(select(Account).order_by(Account.id))).scalars().all()
        people = await _count(session, Membership)
        projects = await _count(session, Project)
    return [
        {
            **describe_account(account),
            "people_count": people.get(account.id, 0),
            "project_count": projects.get(account.id, 0),
        }
        for account in accounts
    ]


async def _count(session: AsyncSession, table: type[Membership] | type[Project]) -> Mapping[int, int]:
    """How many rows each account has."""
    counted = select(table.account_id, func.count()).group_by(table.account_id)
    return dict((await session.execute(counted)).all())


async def _show_account(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """One account with its people and projects. `params`: id (may be left out where there is one)."""
    async with engines.sessions() as session:
        account = await resolve_account(session, params.get("id"))
        people = [
            {**summarize_person(member.person), "role": member.role}
            for member in await list_members(session, account)
        ]
        found = select(Project).where(Project.account_id == account.id).order_by(Project.id)
        projects = [summarize_project(project) for project in (await session.execute(found)).scalars()]
    return {**describe_account(account), "people": people, "projects": projects}


async def _create_account(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """A new account and its owner, who may be known from another. `params`: name, slug (made from the name),
    owner_name, owner_email."""
    name = read_name(params)
    slug = read_slug(params, name)
    email, owner_name = read_email(params, "owner_email"), read_name(params, "owner_name")
    async with engines.sessions() as session, session.begin():
        try:
            account = await create_account(session, name, slug, DEFAULT_LIMIT, now)
        except IntegrityError:
            raise Refused(
                f"There is an account of the slug {slug!r} already: choose another with --slug."
            ) from None
        person = await add_member(session, account, email, owner_name, "owner", now)
        details = {"slug": slug, "owner": person.public_id}
        subject = f"account {account.public_id}"
        record_audit_entry(
            session, make_operator(params), account.id, "account.create", subject, now, details
        )
    told = {**describe_account(account), "owner": summarize_person(person)}
    return told if person.name == owner_name else {**told, "warning": known_as(email, person.name)}


def known_as(email: str, name: str) -> str:
    """Why somebody is not called as it was asked for."""
    return f"{email} is known as {name} from another account, and stays so."


async def _set_limit(engines: Engines, params: Params, now: datetime) -> dict[str, Any]:
    """Another limit, at every edge within 5 s. `params`: id, rate, burst."""
    limit = read_limit(params)
    async with engines.sessions() as session, session.begin():
        account = await resolve_account(session, params.get("id"))
        await lock_account_row(session, account)
        details = {
            "from": {"rate": account.ingest_rate, "burst": account.ingest_burst},
            "to": {"rate": limit.rate, "burst": limit.burst},
        }
        await set_ingest_limit(session, account.public_id, limit)
        await session.refresh(account)
        subject = f"account {account.public_id}"
        record_audit_entry(session, make_operator(params), account.id, "account.limit", subject, now, details)
    told = describe_account(account)
    with warn_if_unpublished(told):
        await republish_account(engines.sessions, engines.directory, account.id, now)
    return told


ACTIONS: Mapping[str, Action] = {
    "accounts/list": _list_accounts,
    "accounts/show": _show_account,
    "accounts/create": _create_account,
    "accounts/limit": _set_limit,
}
