"""What needs two people: one asks for it, another one decides.

Whoever makes a sign-in link for a person could use it, and act as that person. So the two do not count as two people
for a while after the link was used: the person notices in this time that the password is another one.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Person
from control_domain.tables.sign_in import SignInLink
from pipeline_contracts.errors import SecondPersonRequired

DOUBT = timedelta(days=7)
"""How long after a sign-in link was used its maker may be the one who acts as the person."""


class PossibleActors:
    """For each of some people, who may act as that person."""

    def __init__(self, makers: Mapping[int, int | None]) -> None:
        self._makers = makers

    def are_two(self, first_id: int | None, second_id: int) -> bool:
        """Return True if nobody may act as both of them. None: somebody unknown."""
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
    """Return who may act as these people: each, and who made the link with which the password was set.

    The newest link counts. One that an operator of the machine has made ends the doubt.
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
        raise SecondPersonRequired(f"{person.name} has asked for it: somebody else has to decide.")
    if not (await find_possible_actors(session, (requester_id, person.id), now)).are_two(
        requester_id, person.id
    ):
        raise SecondPersonRequired(describe_doubt(person))


def describe_doubt(person: Person) -> str:
    """Return why this person does not count as another one."""
    return (
        f"{person.name} may be the person who asked for it: a password was set with a sign-in link of one of them "
        f"less than {DOUBT.days} days ago. Somebody else has to decide, or an operator of the installation makes "
        "another link."
    )
