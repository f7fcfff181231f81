"""Hash visitors, sessions and measurements under the salt of the day. A hash cannot be reversed without the salt."""

from collections.abc import Mapping
from hashlib import blake2b

# Time after midnight (UTC) during which a visit of the day before may continue.
BRIDGE_MS = 30 * 60_000

Salts = Mapping[int, bytes]
"""By day since 1970 (UTC): the salt of 16 bytes."""


def hash_visitor(salt: bytes, site_id: int, kind: str, *parts: str) -> int:
    """Return a hash of 64 bits, never 0. `kind` separates visitors, sessions and measurements."""
    digest = blake2b(digest_size=8, key=salt)
    # Hash the lengths of the parts too, so that different parts never give the same bytes.
    digest.update(f"{site_id}\0{kind}\0{','.join([str(len(part)) for part in parts])}\0".encode())
    digest.update("\0".join(parts).encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()) or 1


class VisitorHashes:
    """The hashes of one request. Its address and User-Agent are hashed once for each day of its events."""

    __slots__ = ("_salts", "_site_id", "_address", "_user_agent", "_hashes")

    def __init__(self, salts: Salts, site_id: int, address: str, user_agent: str) -> None:
        self._salts = salts
        self._site_id = site_id
        self._address = address
        self._user_agent = user_agent
        self._hashes: dict[int, int] = {}

    def visitor(self, day: int, visitor_id: str | None) -> int:
        """Return the visitor's hash on this day, by the ID that the page sent, if any; 0 if the day has no salt."""
        salt = self._salts.get(day)
        if salt is None:
            return 0
        if visitor_id:
            return hash_visitor(salt, self._site_id, "given", visitor_id)
        hashed = self._hashes.get(day)
        if hashed is None:
            hashed = self._hashes[day] = hash_visitor(
                salt, self._site_id, "visitor", self._address, self._user_agent
            )
        return hashed

    def session(self, day: int, session_id: str) -> int:
        """Return the session's hash on this day; 0 if the day has no salt."""
        salt = self._salts.get(day)
        return 0 if salt is None else hash_visitor(salt, self._site_id, "session", session_id)

    def measurement(self, day: int, vital_id: str) -> int:
        """Return the hash of a Web Vital's ID on this day; 0 if the day has no salt."""
        salt = self._salts.get(day)
        return 0 if salt is None else hash_visitor(salt, self._site_id, "vital", vital_id)
