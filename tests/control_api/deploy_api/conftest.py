"""The deploy API on both databases."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from fastapi import Request

from control_api.requests import json_body
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.deploy_platform import Platform, Prepared, open_platform
from tests.support.prepared_platform import platform, prepared

__all__ = ["body_is_read", "platform", "prepared", "shared"]


@pytest.fixture(scope="module")
async def shared(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory, column_store: ChdbColumnStore
) -> AsyncIterator[Platform]:
    """One platform for all tests of a file, which restore what they change."""
    async with open_platform(prepared, tmp_path_factory.mktemp("shared"), column_store) as opened:
        yield opened


@pytest.fixture
def body_is_read(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """An event that is set when the control plane starts to read a body."""
    reading = asyncio.Event()
    read = json_body._read_stream

    async def read_and_tell(request: Request, most: int) -> bytes:
        reading.set()
        return await read(request, most)

    monkeypatch.setattr(json_body, "_read_stream", read_and_tell)
    return reading
