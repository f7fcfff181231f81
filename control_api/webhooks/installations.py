"""Installations of the Git host's application: which repositories tell of themselves through it."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from sqlalchemy import Delete, delete, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.database import insert_unless_there
from control_api.webhooks.notices import Installation
from control_api.webhooks.outcome import Outcome
from control_api.webhooks.tables import GitInstallation, InstalledRepository

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


async def _connect(session: AsyncSession, number: int, names: Sequence[str]) -> None:
    for some in _in_pieces(names):
        values = [{"installation_id": number, "full_name": name} for name in some]
        await session.execute(insert_unless_there(session, InstalledRepository, values))


async def _disconnect(session: AsyncSession, number: int, names: Sequence[str]) -> None:
    for some in _in_pieces(names):
        await session.execute(_repositories_of(number).where(InstalledRepository.full_name.in_(some)))


def _in_pieces(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """As they are kept, so many at a time as fit into a statement."""
    kept = sorted({name.lower() for name in names if len(name) <= _LONGEST_NAME})
    for start in range(0, len(kept), _PIECE):
        yield kept[start : start + _PIECE]


def _repositories_of(number: int) -> Delete:
    return delete(InstalledRepository).where(InstalledRepository.installation_id == number)
