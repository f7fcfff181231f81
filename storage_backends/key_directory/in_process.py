"""The key directory in memory: the control plane of the same process publishes into it at start."""

from collections.abc import Sequence

from storage_backends.key_directory.interface import KeyEntry


class InProcessKeyDirectory:
    """A mapping; a change holds from the next request on."""

    def __init__(self) -> None:
        self._entries: dict[bytes, KeyEntry] = {}
        self._complete = False

    async def find(self, digest: bytes) -> KeyEntry | None:
        return self._entries.get(digest)

    async def publish(self, entry: KeyEntry) -> None:
        self._entries[entry.digest] = entry

    async def revoke(self, digest: bytes) -> None:
        self._entries.pop(digest, None)

    async def publish_all(self, entries: Sequence[KeyEntry]) -> None:
        # Whoever publishes is the only one: nothing can have happened since the list was read.
        self._entries = {entry.digest: entry for entry in entries}
        self._complete = True

    async def is_complete(self) -> bool:
        return self._complete

    async def close(self) -> None:
        self._entries.clear()
