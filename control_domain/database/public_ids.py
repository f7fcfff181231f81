"""IDs in requests: the number of a row, or its public ID, such as `prj_4f2k`."""

import re

from sqlalchemy import ColumnElement, false
from sqlalchemy.orm import InstrumentedAttribute

_NUMBER = re.compile("[0-9]{1,10}")
_PUBLIC_ID = re.compile("[a-z]{3}_[0-9a-z]{1,36}")
# The largest integer of the columns in Postgres.
MAX_NUMBER = 2**31 - 1


def parse_number(number_or_id: str) -> int | None:
    """Return the number, or None for a text that cannot be the ID of a row."""
    if _NUMBER.fullmatch(number_or_id) is None or not 0 < int(number_or_id) <= MAX_NUMBER:
        return None
    return int(number_or_id)


def parse_id(number_or_id: str) -> int | str | None:
    """Return the number or the public ID, or None for a text that is neither."""
    number = parse_number(number_or_id)
    if number is not None:
        return number
    # Postgres fails the whole query for a text that it cannot store, such as one with a NUL.
    return number_or_id if _PUBLIC_ID.fullmatch(number_or_id) else None


def matches_id(
    number: InstrumentedAttribute[int], public_id: InstrumentedAttribute[str], number_or_id: str
) -> ColumnElement[bool]:
    """Return the condition that a row has this number or public ID."""
    wanted = parse_id(number_or_id)
    if wanted is None:
        return false()
    return number == wanted if isinstance(wanted, int) else public_id == wanted
