"""Everything that is sealed is sealed again, so that an older key is needed no more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.configuration.reseal_actions import reseal_operations, reseal_reviews
from control_api.configuration.tables import Operation, Review
from control_api.projects.tables import Environment
from control_api.variables.sealing import Sealed, SealingKeys
from control_api.variables.tables import VariableChange, VariableSet
from control_api.webhooks.secrets import sealed_for
from control_api.webhooks.tables import SealedWebhookSecret

_Variables = type[VariableSet] | type[VariableChange]
_Table = _Variables | type[Review] | type[Operation] | type[SealedWebhookSecret]
_TABLES: Sequence[_Table] = (VariableSet, VariableChange, Review, Operation, SealedWebhookSecret)


@dataclass(frozen=True, slots=True)
class Resealed:
    """How many rows were sealed again, and how many are left."""

    done: int
    left: int


async def reseal(session: AsyncSession, keys: SealingKeys, most: int) -> Resealed:
    """Seal again, with the present key, up to `most` rows of each table that an older one has sealed: variables,
    changes of them, what configurations are about to do, and the secrets of webhooks.

    Until nothing is left the older key is needed. Raises `CannotOpen` for one whose key is gone.
    """
    done = [
        await _reseal(session, keys, VariableSet, most),
        await _reseal(session, keys, VariableChange, most),
        # In the order in which a review's application changes them: on Postgres the two would wait crosswise.
        await reseal_operations(session, keys, most),
        await reseal_reviews(session, keys, most),
        await _reseal_secrets(session, keys, most),
    ]
    left = [select(func.count()).select_from(table).where(_is_stale(table, keys)) for table in _TABLES]
    return Resealed(sum(done), sum([(await session.execute(query)).scalar_one() for query in left]))


def _is_stale(table: _Table, keys: SealingKeys) -> ColumnElement[bool]:
    return table.sealed.is_not(None) & (table.key_id != keys.key_id)


async def _reseal(session: AsyncSession, keys: SealingKeys, table: _Variables, most: int) -> int:
    # What it is sealed for.
    owner = select(Environment.public_id).where(Environment.id == table.environment_id).scalar_subquery()
    columns = (table.id, table.key_id, table.sealed, owner)
    query = select(*columns).where(_is_stale(table, keys)).order_by(table.id).limit(most)
    rows: Sequence[Any] = (await session.execute(query)).all()
    done = 0
    for number, key_id, sealed, environment_id in rows:
        fresh = keys.seal(keys.open(Sealed(key_id, sealed), environment_id), environment_id)
        # As it was read: what was decided on meanwhile must not get its secrets back.
        written = await session.execute(
            update(table)
            .where(table.id == number, table.key_id == key_id)
            .values(key_id=fresh.key_id, sealed=fresh.data)
            .returning(table.id)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done


async def _reseal_secrets(session: AsyncSession, keys: SealingKeys, most: int) -> int:
    table = SealedWebhookSecret
    columns = (table.repository_id, table.key_id, table.sealed)
    query = select(*columns).where(_is_stale(table, keys)).order_by(table.repository_id).limit(most)
    done = 0
    for repository_id, key_id, sealed in (await session.execute(query)).all():
        owner = sealed_for(repository_id)
        fresh = keys.seal(keys.open(Sealed(key_id, sealed), owner), owner)
        # As it was read: one that was replaced meanwhile, even under the older key, must not come back.
        written = await session.execute(
            update(table)
            .where(table.repository_id == repository_id, table.sealed == sealed)
            .values(key_id=fresh.key_id, sealed=fresh.data)
            .returning(table.repository_id)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done
