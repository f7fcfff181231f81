"""IDs as callers write them: the number of a row, or its public ID, such as `prj_4f2k`."""

import re

from sqlalchemy import ColumnElement, false
from sqlalchemy.orm import InstrumentedAttribute

_NUMBER = re.compile("[0-9]{1,10}")
_PUBLIC_ID = re.compile("[a-z]{3}_[0-9a-z]{1,36}")
# What the columns hold.
_MOST = 2**31 - 1


def parse_number(given: str) -> int | None:
    """The integer ID in a path; None for what no row can have."""
    if _NUMBER.fullmatch(given) is None or not 0 < int(given) <= _MOST:
        return None
    return int(given)


def matches_id(
    number: InstrumentedAttribute[int], public_id: InstrumentedAttribute[str], given: str
) -> ColumnElement[bool]:
    """That a row is the one of this numeric or public ID."""
    as_number = parse_number(given)
    if as_number is not None:
        return number == as_number
    # Postgres refuses the whole query for a text that it cannot keep, such as one with a NUL.
    return public_id == given if _PUBLIC_ID.fullmatch(given) else false()
