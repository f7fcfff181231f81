"""Checks for changes that need two people: one person requests the change, another one decides.

The maker of a sign-in link could use the link and act as the person for whom it was made. For some days after the link
was used, the maker and that person therefore do not count as two people. Within these days, the person would notice
that the password has changed.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Person
from control_domain.tables.sign_in import SignInLink
from pipeline_contracts.errors import SecondPersonRequired

DOUBT = timedelta(days=7)
"""How long after the use of a sign-in link its maker may be acting as the person."""


class PossibleActors:
    """Finds for each of several people everybody who may be acting as that person."""

    def __init__(self, makers: Mapping[int, int | None]) -> None:
        self._makers = makers

    def are_two(self, first_id: int | None, second_id: int) -> bool:
        """Return True if no single person may be acting as both. None stands for an unknown person."""
        return first_id is None or self._of(first_id).isdisjoint(self._of(second_id))

    def _of(self, person_id: int) -> set[int]:
        actors: set[int] = set()
        at: int | None = person_id
        while at is not None and at not in actors:
            actors.add(at)
            at = self._makers.get(at)
        return actors


async def find_possible_actors(
    session: AsyncSession, person_ids: Collection[int | None], now: datetime
) -> PossibleActors:
    """Return who may be acting as each of these people: the person, and the maker of the sign-in link with which the
    password was set.

    Only the newest link counts. A link from an operator of the machine ends the doubt.
    """
    makers: dict[int, int | None] = {}
    asked = {each for each in person_ids if each is not None}
    while asked:
        query = (
            select(SignInLink.person_id, SignInLink.created_by_id)
            .where(SignInLink.person_id.in_(asked), SignInLink.used_at > now - DOUBT)
            .order_by(SignInLink.used_at, SignInLink.id)
        )
        found: dict[int, int | None] = dict((await session.execute(query)).all())
        makers |= {each: found.get(each) for each in asked}
        asked = {maker for maker in found.values() if maker is not None} - makers.keys()
    return PossibleActors(makers)


async def check_second_person(
    session: AsyncSession, requester_id: int | None, person: Person, now: datetime
) -> None:
    """Raise `SecondPersonRequired` if the person who decides is, or may be, the one who made the request."""
    if requester_id == person.id:
        raise SecondPersonRequired(f"{person.name} made this request: another person must decide.")
    if not (await find_possible_actors(session, (requester_id, person.id), now)).are_two(
        requester_id, person.id
    ):
        raise SecondPersonRequired(describe_doubt(person))


def describe_doubt(person: Person) -> str:
    """Return why this person may be the same as the requester."""
    return (
        f"{person.name} may be the person who made this request: less than {DOUBT.days} days ago, a password "
        f"was set with a sign-in link that one of them made. Another person must decide, or an operator of the "
        "installation makes a new sign-in link."
    )
