"""Finds the person named by an argument."""

from operator_cli.api.client import Api
from operator_cli.api.names import Row, resolve_row


def find_person(api: Api, name: str) -> Row:
    """Return the person of the account with this e-mail address, name, ID or number. Raises `CommandFailed`."""
    if name.isdecimal():
        person: Row = api.get("people", name)
        return person
    return resolve_row(api, "people", name=name, noun="person", keys=("id", "email", "name"), label="email")
