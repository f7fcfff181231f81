"""Finds which pending approvals a caller may decide."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right, is_allowed
from control_domain.accounts.second_person import find_possible_actors


class Waiting(NamedTuple):
    """Something that waits for a second person."""

    asked_by_id: int | None
    project_role: str | None
    """The caller's role in its project."""


async def list_decidable(session: AsyncSession, caller: Caller, waiting: Sequence[Waiting]) -> list[bool]:
    """Return for each item whether the caller may decide it: the caller has the right, and is certainly not the
    requester."""
    asked_by = {each.asked_by_id for each in waiting}
    actors = await find_possible_actors(session, {caller.person.id, *asked_by}, datetime.now(UTC))
    return [
        is_allowed(caller.role, each.project_role, Right.DECIDE)
        and actors.are_two(each.asked_by_id, caller.person.id)
        for each in waiting
    ]
