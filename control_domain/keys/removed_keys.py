"""The edges forget the keys of what was removed: an environment, a heartbeat, a queue, a site."""

from collections.abc import Sequence
from typing import Any

from control_domain.keys.live_keys import telling_edges
from storage_backends.key_directory.interface import KeyDirectory


async def forget_keys(directory: KeyDirectory, digests: Sequence[bytes], told: dict[str, Any]) -> None:
    """After the commit: they work nowhere within 5 s. Where that cannot be told now, `told` gets a `warning`."""
    with telling_edges(told):
        for digest in digests:
            await directory.revoke(digest)
