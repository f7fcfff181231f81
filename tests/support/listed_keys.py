"""Key entries as the control plane reads them for a publication."""

from collections.abc import Sequence

from storage_backends.key_directory.interface import KeyEntry, ReadEntries


def entries_reader(entries: Sequence[KeyEntry]) -> ReadEntries:
    """Return a reader that always returns these entries."""

    async def read() -> Sequence[KeyEntry]:
        return entries

    return read
