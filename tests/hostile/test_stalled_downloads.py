"""Unread downloads use little memory of the proxy, and the proxy frees that memory."""

import pytest

from tests.hostile.stalled_downloads import run

_MB = 2**20


async def test_an_unread_download_uses_little_memory() -> None:
    """60 downloads used 70 MiB before the proxy limited the size of its reads."""
    memory = await run(60, settle_seconds=0.5)
    assert memory.stalled - memory.before < 16 * _MB, memory


# The test above covers the memory of a download; this one also covers the release of memory.
@pytest.mark.full
async def test_memory_of_600_unread_downloads_is_freed() -> None:
    memory = await run(600)
    assert memory.stalled - memory.before < 600 * 80 * 1024, memory
    assert memory.after - memory.before < 20 * _MB, memory
