"""The names of heartbeats, by which the edges find them."""

from collections.abc import Collection, Sequence

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Account
from control_domain.tables.monitors import Heartbeat
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry


async def live_heartbeat_names(
    session: AsyncSession,
    names: Collection[tuple[str, str]] | None = None,
    *,
    account_id: int | None = None,
) -> Sequence[KeyEntry]:
    """Return the directory entries of the names of all heartbeats, or only of these names or of an account.

    `names`: each the public ID of the environment and the name.
    """
    # Account scope: the edges need the names of every account.
    query = (
        select(
            Heartbeat.id,
            Heartbeat.name,
            Environment.public_id,
            Project.public_id,
            Account.public_id,
            Account.ingest_rate,
            Account.ingest_burst,
        )
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .join(Account, Account.id == Project.account_id)
    )
    if names is not None:
        query = query.where(tuple_(Environment.public_id, Heartbeat.name).in_(names))
    if account_id is not None:
        query = query.where(Account.id == account_id)
    return [
        KeyEntry(
            digest=digest_heartbeat_name(environment, name),
            kind=CredentialKind.HEARTBEAT_NAME,
            account_id=account,
            project_id=project,
            environment_id=environment,
            limit=RateLimit(rate, burst),
            monitor=f"heartbeat/{number}",
        )
        for number, name, environment, project, account, rate, burst in await session.execute(query)
    ]
