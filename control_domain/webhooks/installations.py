"""Installations of the Git host's application, and the repositories that each may access."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Delete, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.tables.webhooks import GitInstallation, InstalledRepository
from control_domain.webhooks.outcome import Outcome
from git_hosts.webhook_events import HostedRepository, Installation

_MAX_LOGIN_LENGTH = 200
_MAX_NAME_LENGTH = 300
_BATCH_SIZE = 500


async def process_installation(session: AsyncSession, installation: Installation, now: datetime) -> Outcome:
    """Store which repositories the installation may access from now on. Idempotent."""
    match installation.change:
        case "deleted":
            await session.execute(_delete_repositories(installation.id))
            await session.execute(delete(GitInstallation).where(GitInstallation.id == installation.id))
        case "suspended" | "unsuspended":
            await _insert_installation(session, installation, now)
            suspended_at = now if installation.change == "suspended" else None
            await session.execute(
                update(GitInstallation)
                .where(GitInstallation.id == installation.id)
                .values(suspended_at=suspended_at)
            )
        case _:
            await _insert_installation(session, installation, now)
            await _disconnect(session, installation.id, installation.removed)
            await _connect(session, installation.id, installation.added)
    return Outcome("handled")


async def _insert_installation(session: AsyncSession, installation: Installation, now: datetime) -> None:
    """Insert the installation unless it exists: hosts may send events out of order."""
    values = {"id": installation.id, "login": installation.login[:_MAX_LOGIN_LENGTH], "created_at": now}
    await session.execute(insert_if_absent(session, GitInstallation, values))


async def find_installed_repository(
    session: AsyncSession, installation: int | None, hosted: HostedRepository
) -> InstalledRepository | None:
    """Return the repository if the installation may access it, found by its ID or, if no ID is stored, by its name.
    None if the installation may not access it, or is suspended."""
    name = hosted.full_name.lower()
    by_name = InstalledRepository.full_name == name
    by_id = InstalledRepository.host_id == hosted.id
    unknown = by_name & InstalledRepository.host_id.is_(None)
    query = (
        select(InstalledRepository)
        .join(GitInstallation, GitInstallation.id == InstalledRepository.installation_id)
        .where(
            GitInstallation.id == installation,
            GitInstallation.suspended_at.is_(None),
            by_name if hosted.id is None else by_id | unknown,
        )
        # A match by ID comes first.
        .order_by(InstalledRepository.host_id.is_(None), InstalledRepository.full_name)
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def store_installed_name(
    session: AsyncSession, installed: InstalledRepository, hosted: HostedRepository
) -> None:
    """Store the ID and the present name of a repository that an installation may access."""
    name = hosted.full_name.lower()
    if hosted.id is not None and (installed.host_id, installed.full_name) != (hosted.id, name):
        await _connect(session, installed.installation_id, [hosted])


async def _connect(session: AsyncSession, number: int, repositories: Sequence[HostedRepository]) -> None:
    for batch in _split_into_batches(repositories):
        ids = {name: hosted.id for name, hosted in batch.items()}
        mine = InstalledRepository.installation_id == number
        query = select(InstalledRepository).where(
            mine, InstalledRepository.full_name.in_(ids) | InstalledRepository.host_id.in_(_list_ids(batch))
        )
        for row in (await session.execute(query.with_for_update())).scalars().all():
            await _release_name(session, row, ids)
        values = [
            {"installation_id": number, "full_name": name, "host_id": host_id}
            for name, host_id in ids.items()
        ]
        await session.execute(insert_if_absent(session, InstalledRepository, values))


async def _release_name(
    session: AsyncSession, row: InstalledRepository, ids: Mapping[str, str | None]
) -> None:
    """Rename or delete a row whose name or ID is about to be inserted again."""
    host_id = ids.get(row.full_name, row.host_id)
    if row.full_name in ids and (host_id is None or row.host_id == host_id):
        return
    if row.full_name in ids and row.host_id is not None and row.host_id not in ids.values():
        # Renamed without an event: keep it without a name until a delivery has the new one.
        await _rename(session, row, f"?/{row.host_id}")
        return
    # The row has no ID or the former name: insert it again with the present ones.
    await session.delete(row)
    await session.flush()


async def _rename(session: AsyncSession, row: InstalledRepository, name: str) -> None:
    row.full_name = name
    await session.flush()


async def _disconnect(session: AsyncSession, number: int, repositories: Sequence[HostedRepository]) -> None:
    for batch in _split_into_batches(repositories):
        by_name = InstalledRepository.full_name.in_(batch)
        unknown = [name for name, hosted in batch.items() if hosted.id is None]
        condition = (
            InstalledRepository.host_id.in_(_list_ids(batch))
            | (by_name & InstalledRepository.host_id.is_(None))
            | InstalledRepository.full_name.in_(unknown)
        )
        await session.execute(_delete_repositories(number).where(condition))


def _list_ids(repositories: Mapping[str, HostedRepository]) -> list[str]:
    return [hosted.id for hosted in repositories.values() if hosted.id is not None]


def _split_into_batches(repositories: Sequence[HostedRepository]) -> Iterator[Mapping[str, HostedRepository]]:
    """Yield the repositories by lower-case name, in batches that fit into one statement."""
    by_name = {
        hosted.full_name.lower(): hosted
        for hosted in repositories
        if len(hosted.full_name) <= _MAX_NAME_LENGTH
    }
    names = sorted(by_name)
    for start in range(0, len(names), _BATCH_SIZE):
        yield {name: by_name[name] for name in names[start : start + _BATCH_SIZE]}


def _delete_repositories(number: int) -> Delete:
    return delete(InstalledRepository).where(InstalledRepository.installation_id == number)
