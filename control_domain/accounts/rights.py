"""The rights of a caller in the account, as they are when the change is made.

A request is authenticated before its body arrives, which may take 30 s. A change that could give somebody more access
locks the account first and reads the rights again: the caller may have been removed, or the token revoked, meanwhile.
"""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller, lock_account_row
from control_domain.accounts.roles import AccountRight, has_account_right
from control_domain.tables.accounts import ApiToken, Membership
from pipeline_contracts.errors import InvalidCredential, NotAllowed

UNKNOWN_TOKEN = "This token is not known, has expired, or was revoked."
_WHO = {AccountRight.MANAGE: "an owner or admin", AccountRight.OWN: "an owner"}


def require_account_right(caller: Caller, right: AccountRight) -> None:
    """Raise `NotAllowed` unless the caller has the right."""
    if not has_account_right(caller.role, right):
        raise NotAllowed(
            f"Only {_WHO[right]} of the account may do this, and {caller.person.name} is {caller.role}."
        )


async def lock_caller(session: AsyncSession, caller: Caller, right: AccountRight, now: datetime) -> Caller:
    """Lock the account with its memberships until the end of the transaction. Return the caller with the present role.

    Raises `InvalidCredential` if the token is not valid any more, and `NotAllowed` without the right.
    """
    await lock_account_row(session, caller.account)
    query = (
        select(Membership.role)
        .join(
            ApiToken,
            (ApiToken.account_id == Membership.account_id) & (ApiToken.person_id == Membership.person_id),
        )
        .where(
            Membership.account_id == caller.account.id,
            Membership.person_id == caller.person.id,
            ApiToken.id == caller.token_id,
            ApiToken.revoked_at.is_(None),
            or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now),
        )
    )
    role = (await session.execute(query)).scalar_one_or_none()
    if role is None:
        raise InvalidCredential(UNKNOWN_TOKEN)
    present = replace(caller, role=role)
    require_account_right(present, right)
    return present
