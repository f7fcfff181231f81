"""Pages of lists: the limit and the cursor that a caller sends, and the cursor of the page that follows.

Lists are newest first by an ID that only rises, and a cursor names the last one that was shown: what is added meanwhile
moves nothing. A cursor is sealed for its list and account, so that nobody depends on what is in it.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline_contracts.errors import FieldError, InvalidInput

DEFAULT_LIMIT = 50
MOST = 100
_LIMIT = re.compile("[0-9]{1,3}")
_SEAL_BYTES = 12
_ID_BYTES = 8
_CURSOR = re.compile("[A-Za-z0-9_-]{27}")


@dataclass(frozen=True, slots=True)
class Page:
    """Which rows are wanted: at most `limit`, all with IDs below `before` where it is set."""

    limit: int
    before: int | None


class Cursors:
    """Makes and reads the cursors of one account's list."""

    def __init__(self, key: bytes, account_id: str, name: str) -> None:
        self._key = key
        self._of = f"cursor\0{account_id}\0{name}\0".encode()

    def write(self, last_id: int) -> str:
        """The cursor of the page behind this ID."""
        number = last_id.to_bytes(_ID_BYTES)
        return urlsafe_b64encode(number + self._seal(number)).rstrip(b"=").decode()

    def read(self, cursor: str) -> int | None:
        """The ID in the cursor; None for one that was not made for this list."""
        if _CURSOR.fullmatch(cursor) is None:
            return None
        sealed = urlsafe_b64decode(cursor + "=")
        number = sealed[:_ID_BYTES]
        # Of the last character two bits say nothing: only the one way of writing it counts.
        genuine = urlsafe_b64encode(number + self._seal(number)).rstrip(b"=").decode()
        return int.from_bytes(number) if hmac.compare_digest(genuine, cursor) else None

    def _seal(self, number: bytes) -> bytes:
        return hmac.digest(self._key, self._of + number, "sha256")[:_SEAL_BYTES]


def read_page(given: Iterable[tuple[str, str]], cursors: Cursors) -> Page | None:
    """The page that these query parameters ask for; None where they ask for none. Others are ignored.

    Raises `InvalidInput` that lists every field at fault.
    """
    values: dict[str, list[str]] = {}
    for name, value in given:
        if name in ("limit", "cursor"):
            values.setdefault(name, []).append(value)
    faults = [FieldError(name, "must be given once") for name, found in values.items() if len(found) > 1]
    limit = values.get("limit", [str(DEFAULT_LIMIT)])[0]
    if _LIMIT.fullmatch(limit) is None or not 1 <= int(limit) <= MOST:
        faults.append(FieldError("limit", f"must be a whole number from 1 to {MOST}"))
    before = None
    if "cursor" in values:
        before = cursors.read(values["cursor"][0])
        if before is None:
            faults.append(FieldError("cursor", "is none of this list; begin again without it"))
    if faults:
        raise InvalidInput("Mend the fields below and ask again.", errors=faults)
    return Page(int(limit), before) if values else None
