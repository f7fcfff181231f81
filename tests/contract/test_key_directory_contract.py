"""What every key directory does. Another engine joins by a parameter of the fixture."""

from dataclasses import replace

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry

ENTRY = KeyEntry(b"d" * 32, CredentialKind.INGEST_KEY, "acc", "prj", "env", RateLimit(1, 1))


async def test_what_was_published_is_found_until_it_is_revoked() -> None:
    directory = InProcessKeyDirectory()
    assert await directory.find(ENTRY.digest) is None
    await directory.publish(ENTRY)
    assert await directory.find(ENTRY.digest) == ENTRY
    changed = replace(ENTRY, limit=RateLimit(2, 2))
    await directory.publish(changed)
    assert await directory.find(ENTRY.digest) == changed
    await directory.revoke(ENTRY.digest)
    await directory.revoke(ENTRY.digest)
    assert await directory.find(ENTRY.digest) is None
