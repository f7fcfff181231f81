"""Ping keys of environments: part of the ping URLs of all heartbeats of one environment, each named in its URL."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.keys import KeyState, get_key_state, is_live, make_key_entry
from control_domain.monitors.limits import MAX_MONITORS
from control_domain.projects.environment_keys import EnvironmentKeys
from control_domain.tables.accounts import Account
from control_domain.tables.monitors import Heartbeat
from control_domain.tables.projects import Environment, EnvironmentPingKey, Project
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.heartbeat_names import MAX_CREATED_IN
from pipeline_contracts.times import format_optional_time, format_time
from storage_backends.key_directory.interface import KeyEntry

PING_KEYS = EnvironmentKeys(
    table=EnvironmentPingKey,
    kind=CredentialKind.ENVIRONMENT_PING_KEY,
    name="ping key",
    subject="environment-ping-key",
    # One for its jobs, and others while they are being replaced.
    max_live=20,
)


class EnvironmentPingKeyDocument(TypedDict):
    """A ping key of one environment, without its secret."""

    id: int
    environment_id: str
    state: KeyState
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class CreatedEnvironmentPingKey(EnvironmentPingKeyDocument):
    """A new ping key of one environment."""

    key: Annotated[str, Meta(description="The secret, which is not shown again.")]
    url: Annotated[
        str,
        Meta(
            description="What the ping URLs of the environment's heartbeats begin with, as a path on the host of "
            "Pharos: the name of a heartbeat follows, then nothing, `/start`, `/fail`, `/log` or an exit status.",
            examples=["/ping/phr_epk_0123456789ABCDEFGHIJKLMNOPQRSTUVxxxxxx/"],
        ),
    ]


def describe_environment_ping_key(
    key: EnvironmentPingKey, environment_id: str, now: datetime
) -> EnvironmentPingKeyDocument:
    return {
        "id": key.id,
        "environment_id": environment_id,
        "state": get_key_state(key, now),
        "created_at": format_time(key.created_at),
        "expires_at": format_optional_time(key.expires_at),
        "revoked_at": format_optional_time(key.revoked_at),
    }


async def live_environment_ping_keys(
    session: AsyncSession,
    now: datetime,
    digests: Collection[bytes] | None = None,
    *,
    environments: Collection[str] | None = None,
    account_id: int | None = None,
) -> Sequence[KeyEntry]:
    """Return the directory entries of all live ping keys of environments, or only of these digests, of environments
    with these public IDs, or of an account."""
    query = (
        select(EnvironmentPingKey, Environment.id, Environment.public_id, Project.public_id, Account)
        .join(Environment, Environment.id == EnvironmentPingKey.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .join(Account, Account.id == Project.account_id)
        .where(EnvironmentPingKey.revoked_at.is_(None))
    )
    if digests is not None:
        query = query.where(EnvironmentPingKey.digest.in_(digests))
    if environments is not None:
        query = query.where(Environment.public_id.in_(environments))
    if account_id is not None:
        query = query.where(Account.id == account_id)
    live = [row for row in await session.execute(query) if is_live(row[0], now)]
    full = await _find_full(session, {row[1]: row[4].id for row in live})
    return [
        make_key_entry(
            key,
            CredentialKind.ENVIRONMENT_PING_KEY,
            account,
            project_id,
            environment_id,
            may_create=number not in full,
        )
        for key, number, environment_id, project_id, account in live
    ]


async def _find_full(session: AsyncSession, accounts: dict[int, int]) -> set[int]:
    """Return the environments in which pings create no more heartbeats. `accounts`: the account of each."""
    if not accounts:
        return set()
    counts = (
        select(Environment.id, Project.account_id, func.count())
        .join(Heartbeat, Heartbeat.environment_id == Environment.id)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id.in_(set(accounts.values())))
        .group_by(Environment.id, Project.account_id)
    )
    of_environment: dict[int, int] = {}
    of_account: dict[int, int] = {}
    for environment, account, count in await session.execute(counts):
        of_environment[environment] = count
        of_account[account] = of_account.get(account, 0) + count
    return {
        environment
        for environment, account in accounts.items()
        if of_environment.get(environment, 0) >= MAX_CREATED_IN or of_account.get(account, 0) >= MAX_MONITORS
    }


async def find_full_accounts(session: AsyncSession) -> set[int]:
    """Return the accounts that have as many heartbeats as they may have."""
    # Account scope: the edges need the keys of every account.
    total = select(func.count()).select_from(Heartbeat)
    # Few installations have that many: the others read one index.
    if (await session.execute(total)).scalar_one() < MAX_MONITORS:
        return set()
    full = (
        select(Project.account_id)
        .join(Environment, Environment.project_id == Project.id)
        .join(Heartbeat, Heartbeat.environment_id == Environment.id)
        .group_by(Project.account_id)
        .having(func.count() >= MAX_MONITORS)
    )
    return set((await session.execute(full)).scalars())
