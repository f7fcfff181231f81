"""The accounts of a person who signs in."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.projects.find import is_callers_role
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.projects import Project, ProjectRole
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import NotAllowed


class AccountOfPerson(NamedTuple):
    """An account, and the role of the person in it."""

    account: Account
    role: str


async def list_accounts_of(session: AsyncSession, person_id: int) -> Sequence[AccountOfPerson]:
    """Return the accounts in which a person is a member, the oldest first."""
    # Account scope: these are the accounts that the person may choose from.
    query = (
        select(Account, Membership.role)
        .join(Membership, Membership.account_id == Account.id)
        .where(Membership.person_id == person_id)
        .order_by(Account.id)
    )
    return [AccountOfPerson(*row) for row in await session.execute(query)]


async def list_project_roles_of(session: AsyncSession, caller: Caller) -> dict[str, str]:
    """Return the caller's roles in the projects of the account, by the projects' string IDs."""
    query = (
        select(Project.public_id, ProjectRole.role)
        .select_from(Project)
        .join(ProjectRole, is_callers_role(caller))
        .where(Project.account_id == caller.account.id)
        .order_by(Project.id)
    )
    return dict((await session.execute(query)).all())


async def choose_account(session: AsyncSession, person: Person) -> Account:
    """Return the account of the person's newest session, or else the oldest account. Raises `NotAllowed`."""
    accounts = {each.account.id: each.account for each in await list_accounts_of(session, person.id)}
    if not accounts:
        raise NotAllowed(f"{person.email} is a member of no account here: ask an owner to invite you again.")
    newest = select(func.max(SignInSession.id)).where(
        SignInSession.person_id == person.id, SignInSession.account_id.in_(accounts)
    )
    # Account scope: the session is one of the person's.
    query = select(SignInSession.account_id).where(SignInSession.id == newest.scalar_subquery())
    used = (await session.execute(query)).scalar_one_or_none()
    return accounts[used if used is not None else min(accounts)]
