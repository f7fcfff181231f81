"""Hashes of passwords: Argon2id with 19 MiB, two passes and one lane, the minimum that OWASP recommends."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from control_domain.sign_in.password_rules import normalize_password
from pipeline_contracts.client_address import wider_network_of
from pipeline_contracts.errors import Unavailable

T = TypeVar("T")

_MEMORY_KIB = 19 * 1024
_PASSES = 2
_SALT_BYTES = 16
_HASH_BYTES = 32
# A hash takes 30 ms of a core and 19 MiB.
_MAX_RUNNING = 2
_MAX_WAITING = 64
# Limit of one wider network, so that a crowd in one network does not take all places.
_MAX_WAITING_OF_NETWORK = 16
# The hash of no real password. It is verified for unknown people and people without a password, so that the response
# takes the same time for them.
_DUMMY = "$argon2id$v=19$m=19456,t=2,p=1$SEoyNyy/oO865FnjkbkaEw$k0P8u7J7FiH1xNEBrywFn0VvwCu/mauN1NhaD5taf4I"


class PasswordHasher:
    """Hashes passwords in threads, two at a time. No transaction may be open meanwhile."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(_MAX_RUNNING)
        self._waiting = Counter[str]()

    async def hash(self, password: str) -> str:
        """Return the hash of a password, in PHC format. Raises `Unavailable` if too many requests wait."""
        return await self._run(lambda: _hash(password))

    async def verify(self, password: str, stored: str | None, network: str = "") -> bool:
        """Return True if `stored` is a hash of the password. For None, return False after the same time.

        Raises `Unavailable` if too many requests wait, in total or of this network. An empty network has no limit of
        its own.
        """
        place = wider_network_of(network) if network else ""
        matches = await self._run(lambda: _verify(password, stored or _DUMMY), place)
        return matches and stored is not None

    async def _run(self, function: Callable[[], T], place: str = "") -> T:
        is_crowd = place and self._waiting[place] >= _MAX_WAITING_OF_NETWORK
        if is_crowd or self._waiting.total() >= _MAX_WAITING:
            raise Unavailable(
                "Too many people are signing in at this moment. Send the same request again.", retry_after=2
            )
        self._waiting[place] += 1
        try:
            await self._running.acquire()
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
        # If the request is canceled, its thread continues and still counts.
        thread = asyncio.ensure_future(asyncio.to_thread(function))
        thread.add_done_callback(lambda _: self._running.release())
        return await asyncio.shield(thread)


def _encode(password: str) -> bytes:
    return normalize_password(password).encode("utf-8", "surrogatepass")


def _hash(password: str) -> str:
    hasher = Argon2id(
        salt=os.urandom(_SALT_BYTES),
        length=_HASH_BYTES,
        iterations=_PASSES,
        lanes=1,
        memory_cost=_MEMORY_KIB,
    )
    return hasher.derive_phc_encoded(_encode(password))


def _verify(password: str, stored: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(_encode(password), stored)
    except InvalidKey:
        return False
    return True
