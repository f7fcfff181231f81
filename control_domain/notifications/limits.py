"""How many channels, rules, thresholds and silences an account may have."""

from typing import Any

from sqlalchemy import Select, func
from sqlalchemy.ext.asyncio import AsyncSession

from pipeline_contracts.errors import Conflict

MAX_CHANNELS = 50
MAX_RULES = 200
MAX_THRESHOLDS = 500
MAX_SILENCES = 200
"""Limit of the silences that have not ended."""


async def check_number(session: AsyncSession, of_account: Select[Any], limit: int, what: str) -> None:
    """Raise `Conflict` if the account has no room for one more of the rows that `of_account` selects.

    The limit need not be exact: concurrent requests may exceed it slightly.
    """
    query = of_account.with_only_columns(func.count(), maintain_column_froms=True)
    if (await session.execute(query)).scalar_one() >= limit:
        raise Conflict(f"The account has {limit} {what}, which is the limit: remove some first.")
