"""Changes an account, with the audit entry."""

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.slugs import check_name
from control_domain.tables.accounts import Account


async def rename_account(
    session: AsyncSession, account: Account, name: str, actor: Actor, now: datetime
) -> None:
    """Change the name of a locked account; its slug stays. Raises `InvalidInput`."""
    name = check_name(name)
    if name == account.name:
        return
    details = {"from": account.name, "to": name}
    await session.execute(update(Account).where(Account.id == account.id).values(name=name))
    await session.refresh(account)
    subject = f"account {account.public_id}"
    record_audit_entry(session, actor, account.id, "account.rename", subject, now, details)
