"""Who a visitor is: a hash under the salt of the day, which nobody can turn back once the salt is deleted."""

from collections.abc import Mapping
from hashlib import blake2b

# So long after midnight (UTC) a visit of the day before may go on.
BRIDGE_MS = 30 * 60_000

Salts = Mapping[int, bytes]
"""By day since 1970 (UTC): the salt of 16 bytes."""


def hash_visitor(salt: bytes, site_id: int, kind: str, *parts: str) -> int:
    """64 bits, never 0. `kind` keeps visitors, sessions and measurements apart."""
    digest = blake2b(digest_size=8, key=salt)
    # Lengths first: no other parts give the same bytes.
    digest.update(f"{site_id}\0{kind}\0{','.join([str(len(part)) for part in parts])}\0".encode())
    digest.update("\0".join(parts).encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()) or 1


class VisitorHashes:
    """The hashes of one request: its address and User-Agent are hashed once a day that its events lie on."""

    __slots__ = ("_salts", "_site_id", "_address", "_user_agent", "_known")

    def __init__(self, salts: Salts, site_id: int, address: str, user_agent: str) -> None:
        self._salts = salts
        self._site_id = site_id
        self._address = address
        self._user_agent = user_agent
        self._known: dict[int, int] = {}

    def visitor(self, day: int, given: str | None) -> int:
        """The visitor's hash on this day; 0 where the day's salt is gone."""
        salt = self._salts.get(day)
        if salt is None:
            return 0
        if given:
            return hash_visitor(salt, self._site_id, "given", given)
        known = self._known.get(day)
        if known is None:
            known = self._known[day] = hash_visitor(
                salt, self._site_id, "visitor", self._address, self._user_agent
            )
        return known

    def session(self, day: int, given: str) -> int:
        """The session's hash on this day; 0 where the day's salt is gone."""
        salt = self._salts.get(day)
        return 0 if salt is None else hash_visitor(salt, self._site_id, "session", given)

    def measurement(self, day: int, given: str) -> int:
        """The hash of a Web Vital's ID."""
        salt = self._salts.get(day)
        return 0 if salt is None else hash_visitor(salt, self._site_id, "vital", given)
