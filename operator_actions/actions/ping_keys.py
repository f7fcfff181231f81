"""Ping keys of heartbeats: made, and shown again, which other keys are not.

A ping URL stands in crontabs and scripts, and whoever sets one up looks it up. So the secret is kept, sealed with the
keys of variables; the edges know its digest, as of every key.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.keys import is_live, warn_if_unpublished
from control_domain.monitors.operations import live_monitor_keys, ping_key_owner
from control_domain.refusals import Refused
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.monitors import MonitorKey
from operator_actions.actions.choose_monitor import choose_heartbeat
from operator_actions.actions.engines import Engines
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential


async def add_ping_key(engines: Engines, heartbeat_id: int, now: datetime) -> dict[str, Any]:
    """Make one more ping key of the heartbeat; those before go on working. Raises `Refused`."""
    keys = engines.sealing_keys()
    secret = make_credential(CredentialKind.PING_KEY)
    sealed = keys.seal({"key": secret}, ping_key_owner(heartbeat_id))
    key = MonitorKey(
        heartbeat_id=heartbeat_id,
        digest=digest_credential(secret),
        created_at=now,
        sealing_key_id=sealed.key_id,
        sealed=sealed.data,
    )
    try:
        async with engines.sessions() as session, session.begin():
            await choose_heartbeat(session, heartbeat_id)
            session.add(key)
            await session.flush()
            entries = await live_monitor_keys(session, now, key.id)
    except IntegrityError:
        raise Refused(f"Heartbeat {heartbeat_id} was removed by somebody else just now.") from None
    told: dict[str, Any] = {"id": heartbeat_id, "ping_key_id": key.id, "ping_key": secret}
    with warn_if_unpublished(told):
        for entry in entries:
            await engines.directory.publish(entry)
    return told


async def show_ping_keys(engines: Engines, heartbeat_id: int, now: datetime) -> list[dict[str, Any]]:
    """Every ping key of the heartbeat: `id`, `state`, and `key` where it is live and can be opened here.

    A heartbeat that never had one gets its first: those of configurations and of earlier versions have none.
    """
    async with engines.sessions() as session:
        found = await _find(session, heartbeat_id)
    if not found and engines.variable_keys is not None:
        await add_ping_key(engines, heartbeat_id, now)
        async with engines.sessions() as session:
            found = await _find(session, heartbeat_id)
    return [
        {
            "id": key.id,
            "state": "live" if is_live(key, now) else "revoked",
            "key": _open(engines.variable_keys, key) if is_live(key, now) else None,
        }
        for key in found
    ]


async def _find(session: AsyncSession, heartbeat_id: int) -> list[MonitorKey]:
    query = select(MonitorKey).where(MonitorKey.heartbeat_id == heartbeat_id, MonitorKey.sealed.is_not(None))
    return list((await session.execute(query.order_by(MonitorKey.id))).scalars())


def _open(keys: SealingKeys | None, key: MonitorKey) -> str | None:
    if keys is None or key.sealed is None or key.sealing_key_id is None:
        return None
    try:
        return keys.open(Sealed(key.sealing_key_id, key.sealed), ping_key_owner(key.heartbeat_id))["key"]
    except CannotOpen:
        # PHAROS_VARIABLES_KEY no longer has the secret that sealed it. The ping key itself keeps working.
        return None
