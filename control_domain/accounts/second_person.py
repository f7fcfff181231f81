"""What needs two people: one asks for it, another one decides."""

from control_domain.tables.accounts import Person
from pipeline_contracts.errors import SecondPersonRequired


def check_second_person(requester_id: int | None, person: Person) -> None:
    """Raise `SecondPersonRequired` if the person who decides is the one who made the request."""
    if requester_id == person.id:
        raise SecondPersonRequired(f"{person.name} has asked for it: somebody else has to decide.")
