"""What reviews and operations are about to do is sealed again, so that an older key is needed no more."""

from typing import Any

from sqlalchemy import Select, null, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.renew_actions import Renewal, read_renewal
from control_domain.configurations.sealed_actions import open_actions, seal_actions
from control_domain.sealing.sealing_keys import Sealed, SealingKeys
from control_domain.tables.configuration import Application, Operation, Review
from control_domain.tables.projects import Project

_REVIEWS = select(Review.id, Review.key_id, Review.sealed, Review.fingerprint, Project).join(
    Project, Project.id == Review.project_id
)
_OPERATIONS = (
    select(Operation.id, Operation.key_id, Operation.sealed, null(), Project)
    .join(Application, Application.id == Operation.application_id)
    .join(Project, Project.id == Application.project_id)
)


async def reseal_reviews(session: AsyncSession, keys: SealingKeys, most: int) -> int:
    """Seal again, with the present key, up to `most` reviews that an older one has sealed; gives how many. They stay
    what they are: of a project that has not changed. Raises `CannotOpen`."""
    return await _reseal(session, keys, Review, _REVIEWS, most)


async def reseal_operations(session: AsyncSession, keys: SealingKeys, most: int) -> int:
    """The same of operations."""
    return await _reseal(session, keys, Operation, _OPERATIONS, most)


async def _reseal(
    session: AsyncSession,
    keys: SealingKeys,
    table: type[Review] | type[Operation],
    query: Select[int, Any, Any, Any, Project],
    most: int,
) -> int:
    stale = query.where(table.sealed.is_not(None), table.key_id != keys.key_id).order_by(table.id).limit(most)
    renewals: dict[tuple[int, str], Renewal] = {}
    done = 0
    for number, key_id, data, fingerprint, project in (await session.execute(stale)).all():
        actions = open_actions(keys, Sealed(key_id, data), project.public_id)
        of = (project.id, key_id)
        if of not in renewals:
            renewals[of] = await read_renewal(session, keys, project, key_id)
        fresh = seal_actions(keys, renewals[of].renew(actions), project.public_id)
        values = {"key_id": fresh.key_id, "sealed": fresh.data}
        if fingerprint is not None:
            values["fingerprint"] = renewals[of].renew_fingerprint(fingerprint)
        # As it was read: what was applied or carried out meanwhile must not get its secrets back.
        written = await session.execute(
            update(table)
            .where(table.id == number, table.key_id == key_id)
            .values(**values)
            .returning(table.id)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done
