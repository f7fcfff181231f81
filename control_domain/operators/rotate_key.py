"""One round of a rotation of the key that seals variables and other secrets."""

from datetime import datetime
from typing import TypedDict

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.key_rotation import reseal
from control_domain.sealing import CannotOpen, SealingKeys
from pipeline_contracts.errors import Conflict

# A transaction of SQLite blocks all other writers.
_MAX_ROWS = 500


class RotationRound(TypedDict):
    """The result of a round: the number of rows sealed again, the number left, and the ID of the current key."""

    resealed: int
    left: int
    key_id: str


async def run_rotation_round(
    session: AsyncSession, keys: SealingKeys, actor: Actor, now: datetime
) -> RotationRound:
    """Seal up to 500 rows of each table with the current key. Repeat it until nothing is `left`.

    Raises `Conflict` for a row whose key is not among `keys`.
    """
    try:
        resealed = await reseal(session, keys, _MAX_ROWS)
    except CannotOpen as error:
        raise Conflict(str(error)) from error
    if resealed.done:
        details = {"sets": resealed.done}
        record_audit_entry(session, actor, None, "variables.reseal", f"key {keys.key_id}", now, details)
    return {"resealed": resealed.done, "left": resealed.left, "key_id": keys.key_id}
