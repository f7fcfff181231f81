"""Pages of lists: the `limit` and `cursor` of a request, and the cursor of the next page.

Most lists are ordered by descending ID, and a cursor contains the last ID of its page, so rows that are added
meanwhile do not shift the pages. The cursor of a list in another order contains the sort key of the last row instead.
A cursor is signed for its list and account: clients cannot build one or use it for another list.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline_contracts.errors import FieldError, InvalidInput

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
_LIMIT = re.compile("[0-9]{1,3}")
_SEAL_BYTES = 12
_ID_BYTES = 8
_CURSOR = re.compile("[A-Za-z0-9_-]{18,600}")


@dataclass(frozen=True, slots=True)
class Page:
    """The requested rows: at most `limit`, with IDs below `before` if it is set."""

    limit: int
    before: int | None


class Cursors:
    """Writes and reads the cursors of one list of one account."""

    def __init__(self, key: bytes, account_id: str, name: str) -> None:
        self._key = key
        self._of = f"cursor\0{account_id}\0{name}\0".encode()

    def write(self, last_id: int) -> str:
        """Return the cursor of the page after this ID."""
        return self._write(last_id.to_bytes(_ID_BYTES))

    def read(self, cursor: str) -> int | None:
        """Return the ID in the cursor, or None if the cursor was not made for this list."""
        position = self._read(cursor)
        return int.from_bytes(position) if position is not None and len(position) == _ID_BYTES else None

    def write_key(self, last_key: str) -> str:
        """Return the cursor of the page after this sort key (1 to 400 bytes), for a list that is not ordered by ID."""
        return self._write(last_key.encode())

    def read_key(self, cursor: str) -> str | None:
        """Return the sort key in the cursor, or None if the cursor was not made for this list."""
        position = self._read(cursor)
        return None if position is None else position.decode()

    def _write(self, position: bytes) -> str:
        return urlsafe_b64encode(position + self._seal(position)).rstrip(b"=").decode()

    def _read(self, cursor: str) -> bytes | None:
        # A group of four characters cannot have only one.
        if _CURSOR.fullmatch(cursor) is None or len(cursor) % 4 == 1:
            return None
        position = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[:-_SEAL_BYTES]
        # Some bits of the last character are unused, so compare with the only valid encoding.
        return position if hmac.compare_digest(self._write(position), cursor) else None

    def _seal(self, position: bytes) -> bytes:
        return hmac.digest(self._key, self._of + position, "sha256")[:_SEAL_BYTES]


def read_page(params: Iterable[tuple[str, str]], cursors: Cursors) -> Page | None:
    """Return the page that the query parameters `limit` and `cursor` request, or None without both. Ignores other
    parameters.

    Raises `InvalidInput` with every invalid field.
    """
    values: dict[str, list[str]] = {}
    for name, value in params:
        if name in ("limit", "cursor"):
            values.setdefault(name, []).append(value)
    faults = [FieldError(name, "must be given once") for name, found in values.items() if len(found) > 1]
    limit = values.get("limit", [str(DEFAULT_LIMIT)])[0]
    if _LIMIT.fullmatch(limit) is None or not 1 <= int(limit) <= MAX_LIMIT:
        faults.append(FieldError("limit", f"must be a whole number from 1 to {MAX_LIMIT}"))
    before = None
    if "cursor" in values:
        before = cursors.read(values["cursor"][0])
        if before is None:
            faults.append(FieldError("cursor", "does not belong to this list; begin again without a cursor"))
    if faults:
        raise InvalidInput("Fix the fields listed below and send the request again.", errors=faults)
    return Page(int(limit), before) if values else None
