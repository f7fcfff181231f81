"""A key directory in memory, for an edge and a control plane in the same process. The control plane publishes all
keys at its start."""

from storage_backends.key_directory.interface import KeyEntry, ReadEntries


class InProcessKeyDirectory:
    """A `KeyDirectory` in memory. A change applies from the next request on."""

    def __init__(self) -> None:
        self._entries: dict[bytes, KeyEntry] = {}
        self._changes_during_reads: list[set[bytes]] = []
        self._complete = False

    async def find(self, digest: bytes) -> KeyEntry | None:
        return self._entries.get(digest)

    def find_known(self, digest: bytes) -> KeyEntry | None:
        return self._entries.get(digest)

    async def publish(self, entry: KeyEntry) -> None:
        self._entries[entry.digest] = entry
        self._record_change(entry.digest)

    async def revoke(self, digest: bytes) -> None:
        self._entries.pop(digest, None)
        self._record_change(digest)

    def _record_change(self, digest: bytes) -> None:
        for changed in self._changes_during_reads:
            changed.add(digest)

    async def publish_all(self, read: ReadEntries) -> int:
        changed: set[bytes] = set()
        self._changes_during_reads.append(changed)
        try:
            entries = await read()
        finally:
            self._changes_during_reads.remove(changed)
        kept = {digest: entry for digest in changed if (entry := self._entries.get(digest)) is not None}
        listed = {entry.digest: entry for entry in entries if entry.digest not in changed}
        self._entries = listed | kept
        self._complete = True
        return len(entries)

    async def is_complete(self) -> bool:
        return self._complete

    async def close(self) -> None:
        self._entries.clear()
