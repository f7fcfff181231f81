"""Installations of the Git host's application: which repositories tell of themselves through it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Delete, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import insert_unless_there
from control_domain.tables.webhooks import GitInstallation, InstalledRepository
from control_domain.webhooks.outcome import Outcome
from git_hosts.webhook_events import HostedRepository, Installation

_LONGEST_LOGIN = 200
_LONGEST_NAME = 300
_PIECE = 500


async def follow_installation(session: AsyncSession, installation: Installation, now: datetime) -> Outcome:
    """Connect what may be seen from now on, and disconnect what may not. Done twice it is the same."""
    match installation.change:
        case "deleted":
            await session.execute(_repositories_of(installation.id))
            gone = delete(GitInstallation).where(GitInstallation.id == installation.id)
            await session.execute(gone)
        case "suspended" | "unsuspended":
            await _ensure(session, installation, now)
            suspended_at = now if installation.change == "suspended" else None
            await session.execute(
                update(GitInstallation)
                .where(GitInstallation.id == installation.id)
                .values(suspended_at=suspended_at)
            )
        case _:
            await _ensure(session, installation, now)
            await _disconnect(session, installation.id, installation.removed)
            await _connect(session, installation.id, installation.added)
    return Outcome("handled")


async def _ensure(session: AsyncSession, installation: Installation, now: datetime) -> None:
    """Hosts do not say things in order: the first that is heard of it makes it."""
    values = {"id": installation.id, "login": installation.login[:_LONGEST_LOGIN], "created_at": now}
    await session.execute(insert_unless_there(session, GitInstallation, values))


async def find_installed_repository(
    session: AsyncSession, installation: int | None, hosted: HostedRepository
) -> InstalledRepository | None:
    """The repository among those that the installation may see, by its ID or, where none is known, by its name; None
    where it may not, or is suspended."""
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
        # The one whose ID is known comes first.
        .order_by(InstalledRepository.host_id.is_(None), InstalledRepository.full_name)
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def note_name(session: AsyncSession, installed: InstalledRepository, hosted: HostedRepository) -> None:
    """Write down the ID of a repository that an installation may see, and the name that it has now."""
    name = hosted.full_name.lower()
    if hosted.id is not None and (installed.host_id, installed.full_name) != (hosted.id, name):
        await _connect(session, installed.installation_id, [hosted])


async def _connect(session: AsyncSession, number: int, repositories: Sequence[HostedRepository]) -> None:
    for some in _in_pieces(repositories):
        ids = {name: one.id for name, one in some.items()}
        mine = InstalledRepository.installation_id == number
        query = select(InstalledRepository).where(
            mine, InstalledRepository.full_name.in_(ids) | InstalledRepository.host_id.in_(_known(some))
        )
        for row in (await session.execute(query.with_for_update())).scalars().all():
            await _give_way(session, row, ids)
        values = [
            {"installation_id": number, "full_name": name, "host_id": host_id}
            for name, host_id in ids.items()
        ]
        await session.execute(insert_unless_there(session, InstalledRepository, values))


async def _give_way(session: AsyncSession, row: InstalledRepository, ids: Mapping[str, str | None]) -> None:
    """Make room for repositories of these names and IDs."""
    told = ids.get(row.full_name, row.host_id)
    if row.full_name in ids and (told is None or row.host_id == told):
        return
    if row.full_name in ids and row.host_id is not None and row.host_id not in ids.values():
        # Renamed without a word of it: it keeps its place under no name, until it tells its new one.
        await _rename(session, row, f"?/{row.host_id}")
        return
    # Told without its ID before, or under the name that it had then: it is inserted as it is now.
    await session.delete(row)
    await session.flush()


async def _rename(session: AsyncSession, row: InstalledRepository, name: str) -> None:
    row.full_name = name
    await session.flush()


async def _disconnect(session: AsyncSession, number: int, repositories: Sequence[HostedRepository]) -> None:
    for some in _in_pieces(repositories):
        by_name = InstalledRepository.full_name.in_(some)
        unknown = [name for name, one in some.items() if one.id is None]
        is_it = (
            InstalledRepository.host_id.in_(_known(some))
            | (by_name & InstalledRepository.host_id.is_(None))
            | InstalledRepository.full_name.in_(unknown)
        )
        await session.execute(_repositories_of(number).where(is_it))


def _known(repositories: Mapping[str, HostedRepository]) -> list[str]:
    return [one.id for one in repositories.values() if one.id is not None]


def _in_pieces(repositories: Sequence[HostedRepository]) -> Iterator[Mapping[str, HostedRepository]]:
    """By their names as they are kept, so many at a time as fit into a statement."""
    kept = {one.full_name.lower(): one for one in repositories if len(one.full_name) <= _LONGEST_NAME}
    names = sorted(kept)
    for start in range(0, len(names), _PIECE):
        yield {name: kept[name] for name in names[start : start + _PIECE]}


def _repositories_of(number: int) -> Delete:
    return delete(InstalledRepository).where(InstalledRepository.installation_id == number)
