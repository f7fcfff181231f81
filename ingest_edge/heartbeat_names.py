"""Find a heartbeat by its name, for a caller with a key of its environment."""

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from storage_backends.key_directory.interface import KeyDirectory


async def find_heartbeat_by_name(directory: KeyDirectory, environment_id: str, name: str) -> int | None:
    """Return the ID of the heartbeat with exactly this name in the environment; None if there is none.

    `environment_id` is the public ID in the entry of the caller's ingest key or ping key. A creation, renaming or
    removal of a heartbeat takes effect here within 5 s. Raises `StorageUnavailable`.
    """
    entry = await directory.find(digest_heartbeat_name(environment_id, name))
    if entry is None or entry.monitor is None or entry.kind is not CredentialKind.HEARTBEAT_NAME:
        return None
    return int(entry.monitor.removeprefix("heartbeat/"))
