"""Downloads that nobody reads cost the proxy little memory, and it gives that back."""

import pytest

from tests.hostile.stalled_downloads import run

_MB = 2**20


async def test_a_download_that_nobody_reads_holds_little() -> None:
    """60 of them held 70 MiB while the proxy read as much at a time as its event loop hands over."""
    memory = await run(60, settle_seconds=0.5)
    assert memory.stalled - memory.before < 16 * _MB, memory


# The test above covers what one holds; this one also whether memory comes back.
@pytest.mark.full
async def test_600_downloads_that_nobody_reads_give_their_memory_back() -> None:
    memory = await run(600)
    assert memory.stalled - memory.before < 600 * 80 * 1024, memory
    assert memory.after - memory.before < 20 * _MB, memory
