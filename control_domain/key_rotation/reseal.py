"""Everything that is sealed is sealed again, so that an older key is needed no more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.key_rotation.reseal_configurations import reseal_operations, reseal_reviews
from control_domain.key_rotation.reseal_ping_keys import count_stale_ping_keys, reseal_ping_keys
from control_domain.repositories.webhook_secrets import sealed_for
from control_domain.sealing.sealing_keys import Sealed, SealingKeys
from control_domain.tables.configuration import Operation, Review
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.tables.webhooks import SealedWebhookSecret

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
    changes of them, what configurations are about to do, the secrets of webhooks, and ping keys.

    Until nothing is left the older key is needed. Raises `CannotOpen` for one whose key is gone.
    """
    done = [
        await _reseal_variables(session, keys, VariableSet, most),
        await _reseal_variables(session, keys, VariableChange, most),
        # In the order in which a review's application changes them: on Postgres the two would wait crosswise.
        await reseal_operations(session, keys, most),
        await reseal_reviews(session, keys, most),
        await _reseal_secrets(session, keys, most),
        await reseal_ping_keys(session, keys, most),
    ]
    queries = [select(func.count()).select_from(table).where(_is_stale(table, keys)) for table in _TABLES]
    left = [(await session.execute(query)).scalar_one() for query in queries]
    return Resealed(sum(done), sum(left) + await count_stale_ping_keys(session, keys))


def _is_stale(table: _Table, keys: SealingKeys) -> ColumnElement[bool]:
    return table.sealed.is_not(None) & (table.key_id != keys.key_id)


async def _reseal_variables(session: AsyncSession, keys: SealingKeys, table: _Variables, most: int) -> int:
    # What it is sealed for.
    owner = select(Environment.public_id).where(Environment.id == table.environment_id).scalar_subquery()
    query = select(table.id, table.key_id, table.sealed, owner).where(_is_stale(table, keys))
    rows = (await session.execute(query.order_by(table.id).limit(most))).all()
    return await _reseal(session, keys, table, table.id, rows)


async def _reseal_secrets(session: AsyncSession, keys: SealingKeys, most: int) -> int:
    table = SealedWebhookSecret
    query = select(table.repository_id, table.key_id, table.sealed).where(_is_stale(table, keys))
    found = (await session.execute(query.order_by(table.repository_id).limit(most))).all()
    rows = [(*row, sealed_for(row.repository_id)) for row in found]
    return await _reseal(session, keys, table, table.repository_id, rows)


async def _reseal(
    session: AsyncSession,
    keys: SealingKeys,
    table: _Variables | type[SealedWebhookSecret],
    number: InstrumentedAttribute[int],
    rows: Sequence[Any],
) -> int:
    """Of rows of number, key, what is sealed, and for whom."""
    done = 0
    for its_number, key_id, sealed, owner in rows:
        fresh = keys.seal(keys.open(Sealed(key_id, sealed), owner), owner)
        # As it was read: what was decided on or replaced meanwhile, even under the older key, must not come back.
        written = await session.execute(
            update(table)
            .where(number == its_number, table.sealed == sealed)
            .values(key_id=fresh.key_id, sealed=fresh.data)
            .returning(number)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done
