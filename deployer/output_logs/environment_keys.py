"""The ingest keys under which the output of environments is stored."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from control_domain.projects.application_keys import ApplicationKey

_REREAD_SECONDS = 30.0
"""Age in seconds after which a key is read again: it may be revoked, and the rate of its account may have changed."""
_FIRST_WAIT = 1.0
_MIN_QUERY_SECONDS = 0.5

FindKeys = Callable[[Collection[str]], Awaitable[Mapping[str, ApplicationKey]]]
"""Returns the live keys of environments by their public IDs. Raises database errors."""


@dataclass(slots=True)
class _Entry:
    key: ApplicationKey | None = None
    reread_at: float = float("-inf")
    failures: int = 0
    """How many times in a row no key was found, or the edge has refused it."""
    absent_since: float | None = None
    """When the database had no usable key for the first time since it had one; None: it has one."""


class EnvironmentKeys:
    """Keeps the key of each environment, and reads it from the database when it may have changed.

    The deployer passes a key to `accept` as soon as it has created it, so the output of a new environment does not wait
    for the database. A missing or refused key is read again after 1, 2, 4 seconds and so on, up to 30 seconds.
    """

    def __init__(self, find_keys: FindKeys, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and is never set back."""
        self._find_keys = find_keys
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._queried_at = float("-inf")

    def get(self, environment_id: str) -> ApplicationKey | None:
        """Return the key of the environment with this public ID. None if the environment has no key that the edge
        accepts."""
        entry = self._entries.get(environment_id)
        return None if entry is None else entry.key

    def absent_seconds(self, environment_id: str) -> float:
        """Return for how long the database has had no usable key of the environment; 0 if it has one."""
        entry = self._entries.get(environment_id)
        return 0.0 if entry is None or entry.absent_since is None else self._clock() - entry.absent_since

    async def refresh(self, environment_ids: Collection[str]) -> None:
        """Read the keys that are due for these environments, in one query. Raises database errors."""
        now = self._clock()
        due = [
            environment_id
            for environment_id in environment_ids
            if self._entries.setdefault(environment_id, _Entry()).reread_at <= now
        ]
        # Two calls may follow each other without a pause.
        if not due or now - self._queried_at < _MIN_QUERY_SECONDS:
            return
        self._queried_at = now
        found = await self._find_keys(due)
        for environment_id in due:
            entry = self._entries[environment_id]
            if entry.reread_at > now:
                # `accept` was called with a key during the query. The query may not have seen that key.
                continue
            entry.key = found.get(environment_id)
            entry.reread_at = now + _REREAD_SECONDS
            if entry.key is None:
                entry.absent_since = now if entry.absent_since is None else entry.absent_since
                self._wait(entry)
            else:
                entry.absent_since = None

    def accept(self, key: ApplicationKey) -> None:
        """Use a key that the deployer has just created or read."""
        self._entries[key.environment_id] = _Entry(key, self._clock() + _REREAD_SECONDS)

    def refuse(self, key: ApplicationKey) -> int:
        """Record that the edge does not accept the key: it is revoked, or not published yet. Return how many times in a
        row the edge has refused it."""
        entry = self._entries.setdefault(key.environment_id, _Entry())
        # A new key may have been created while the request was in flight.
        if entry.key == key:
            entry.key = None
            self._wait(entry)
        return entry.failures

    def confirm(self, key: ApplicationKey) -> None:
        """Record that the edge accepts the key."""
        self._entries.setdefault(key.environment_id, _Entry(key)).failures = 0

    def forget_all_but(self, environment_ids: Collection[str]) -> None:
        """Forget the keys of environments that have no output any more."""
        for environment_id in self._entries.keys() - set(environment_ids):
            del self._entries[environment_id]

    def _wait(self, entry: _Entry) -> None:
        entry.reread_at = self._clock() + min(_REREAD_SECONDS, _FIRST_WAIT * 2.0 ** min(entry.failures, 10))
        entry.failures += 1
