"""Key rotation: seals all stored secrets again with the current key, so that older keys can be removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, null, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.configurations.sealed_actions import (
    DigestTranslation,
    open_actions,
    read_digest_translation,
    seal_actions,
)
from control_domain.monitors.operations import ping_key_owner
from control_domain.projects.application_keys import application_key_owner
from control_domain.repositories.webhook_secrets import secret_owner
from control_domain.sealing import Sealed, SealingKeys
from control_domain.sign_in.second_factor import second_factor_owner
from control_domain.tables.configuration import ConfigurationRun, Review, RunStep
from control_domain.tables.monitors import MonitorKey
from control_domain.tables.notifications import NotificationChannel
from control_domain.tables.projects import Environment, IngestKey, Project
from control_domain.tables.sign_in import SecondFactor
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.tables.webhooks import SealedWebhookSecret

_Variables = type[VariableSet] | type[VariableChange]
# Their column is `sealing_key_id`.
_NamedInFull = type[MonitorKey] | type[NotificationChannel] | type[IngestKey]
_OneEach = type[SealedWebhookSecret] | type[SecondFactor]
_Table = (
    _Variables | type[SecondFactor] | type[Review] | type[RunStep] | type[SealedWebhookSecret] | _NamedInFull
)
_TABLES: Sequence[_Table] = (
    VariableSet,
    VariableChange,
    Review,
    RunStep,
    SealedWebhookSecret,
    MonitorKey,
    IngestKey,
    NotificationChannel,
    SecondFactor,
)


@dataclass(frozen=True, slots=True)
class Resealed:
    """The number of rows that were sealed again, and of rows that still need an older key."""

    done: int
    left: int


async def reseal(session: AsyncSession, keys: SealingKeys, limit: int) -> Resealed:
    """Seal up to `limit` rows of each table again with the current key: variables, changes of variables, reviews and
    steps of configurations, secrets of webhooks, ping keys, keys of applications, secrets of notification channels, and
    second factors.

    The older key is needed until no rows are left. Raises `CannotOpen` for a row whose key is missing.
    """
    done = [
        await _reseal_variables(session, keys, VariableSet, limit),
        await _reseal_variables(session, keys, VariableChange, limit),
        # In the order in which a configuration run changes them; another order would deadlock on Postgres.
        await reseal_run_steps(session, keys, limit),
        await reseal_reviews(session, keys, limit),
        await _reseal_secrets(session, keys, limit),
        await _reseal_ping_keys(session, keys, limit),
        await _reseal_application_keys(session, keys, limit),
        await _reseal_channels(session, keys, limit),
        await _reseal_second_factors(session, keys, limit),
    ]
    queries = [select(func.count()).select_from(table).where(_is_stale(table, keys)) for table in _TABLES]
    left = [(await session.execute(query)).scalar_one() for query in queries]
    return Resealed(sum(done), sum(left))


def _is_stale(table: _Table, keys: SealingKeys) -> ColumnElement[bool]:
    is_stale = table.sealed.is_not(None) & (_key_id_of(table) != keys.key_id)
    # Revoked keys are never shown again. Revoking a key whose sealing key is lost lets the rotation finish.
    return is_stale & MonitorKey.revoked_at.is_(None) if table is MonitorKey else is_stale


def _key_id_of(table: Any) -> InstrumentedAttribute[str]:
    """Return the column with the ID of the key that sealed the row."""
    column: InstrumentedAttribute[str] = (
        table.sealing_key_id if table in (MonitorKey, NotificationChannel, IngestKey) else table.key_id
    )
    return column


async def _reseal_variables(session: AsyncSession, keys: SealingKeys, table: _Variables, limit: int) -> int:
    owner = select(Environment.public_id).where(Environment.id == table.environment_id).scalar_subquery()
    query = select(table.id, table.key_id, table.sealed, owner).where(_is_stale(table, keys))
    rows = (await session.execute(query.order_by(table.id).limit(limit))).all()
    return await _reseal(session, keys, table, table.id, rows)


async def _reseal_ping_keys(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    table = MonitorKey
    query = select(table.id, table.sealing_key_id, table.sealed, table.heartbeat_id)
    found = await session.execute(query.where(_is_stale(table, keys)).order_by(table.id).limit(limit))
    rows = [(*row[:3], ping_key_owner(row[3])) for row in found]
    return await _reseal(session, keys, table, table.id, rows)


async def _reseal_application_keys(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    table = IngestKey
    owner = select(Environment.public_id).where(Environment.id == table.environment_id).scalar_subquery()
    query = select(table.id, table.sealing_key_id, table.sealed, owner)
    found = await session.execute(query.where(_is_stale(table, keys)).order_by(table.id).limit(limit))
    rows = [(*row[:3], application_key_owner(row[3])) for row in found]
    return await _reseal(session, keys, table, table.id, rows)


async def _reseal_channels(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    table = NotificationChannel
    query = select(table.id, table.sealing_key_id, table.sealed, table.public_id)
    found = await session.execute(query.where(_is_stale(table, keys)).order_by(table.id).limit(limit))
    return await _reseal(session, keys, table, table.id, found.all())


async def _reseal_second_factors(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    table = SecondFactor
    query = select(table.person_id, table.key_id, table.sealed).where(_is_stale(table, keys))
    found = (await session.execute(query.order_by(table.person_id).limit(limit))).all()
    rows = [(*row, second_factor_owner(row.person_id)) for row in found]
    return await _reseal(session, keys, table, table.person_id, rows)


async def _reseal_secrets(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    table = SealedWebhookSecret
    query = select(table.repository_id, table.key_id, table.sealed).where(_is_stale(table, keys))
    found = (await session.execute(query.order_by(table.repository_id).limit(limit))).all()
    rows = [(*row, secret_owner(row.repository_id)) for row in found]
    return await _reseal(session, keys, table, table.repository_id, rows)


async def _reseal(
    session: AsyncSession,
    keys: SealingKeys,
    table: _Variables | _OneEach | _NamedInFull,
    primary_key: InstrumentedAttribute[int],
    rows: Sequence[Any],
) -> int:
    """`rows`: primary key, key ID, sealed data and owner of each."""
    done = 0
    for row_id, key_id, sealed, owner in rows:
        fresh = keys.seal(keys.open(Sealed(key_id, sealed), owner), owner)
        # Compare with the data that was read: a row that was decided or replaced meanwhile must not be restored.
        written = await session.execute(
            update(table)
            .where(primary_key == row_id, table.sealed == sealed)
            .values({_key_id_of(table): fresh.key_id, table.sealed: fresh.data})
            .returning(primary_key)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done


_REVIEWS = select(Review.id, Review.key_id, Review.sealed, Review.fingerprint, Project).join(
    Project, Project.id == Review.project_id
)
_STEPS = (
    select(RunStep.id, RunStep.key_id, RunStep.sealed, null(), Project)
    .join(ConfigurationRun, ConfigurationRun.id == RunStep.run_id)
    .join(Project, Project.id == ConfigurationRun.project_id)
)


async def reseal_reviews(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    """Seal up to `limit` reviews again with the current key and return their number.

    Their fingerprints are renewed too, so a review still applies if its project has not changed. Raises `CannotOpen`.
    """
    # Account scope: a key is replaced for all accounts.
    return await _reseal_row(session, keys, Review, _REVIEWS, limit)


async def reseal_run_steps(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    """Seal up to `limit` steps of configuration runs again and return their number. Raises `CannotOpen`."""
    # Account scope: a key is replaced for all accounts.
    return await _reseal_row(session, keys, RunStep, _STEPS, limit)


async def _reseal_row(
    session: AsyncSession,
    keys: SealingKeys,
    table: type[Review] | type[RunStep],
    query: Select[int, Any, Any, Any, Project],
    limit: int,
) -> int:
    stale = query.where(_is_stale(table, keys)).order_by(table.id).limit(limit)
    translations: dict[tuple[int, str], DigestTranslation] = {}
    done = 0
    for number, key_id, data, fingerprint, project in (await session.execute(stale)).all():
        actions = open_actions(keys, Sealed(key_id, data), project.public_id)
        renewal_key = (project.id, key_id)
        if renewal_key not in translations:
            translations[renewal_key] = await read_digest_translation(session, keys, project, key_id)
        fresh = seal_actions(keys, translations[renewal_key].translate_actions(actions), project.public_id)
        values = {"key_id": fresh.key_id, "sealed": fresh.data}
        if fingerprint is not None:
            values["fingerprint"] = translations[renewal_key].translate_fingerprint(fingerprint)
        # Compare with the key that was read: a row that was applied meanwhile must not get its secrets back.
        written = await session.execute(
            update(table)
            .where(table.id == number, table.key_id == key_id)
            .values(**values)
            .returning(table.id)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done
