"""Lists of keys as control reads them for a publication."""

from collections.abc import Sequence

from storage_backends.key_directory.interface import KeyEntry, ReadEntries


def entries_reader(entries: Sequence[KeyEntry]) -> ReadEntries:
    """Reads these, whenever it is called."""

    async def read() -> Sequence[KeyEntry]:
        return entries

    return read
