"""A pipeline for each test, over the column store of the run."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.otlp_pipeline import OtlpPipeline, open_otlp_pipeline

StartPipeline = Callable[..., Any]


@pytest.fixture
async def start_pipeline(tmp_path: Path, column_store: ChdbColumnStore) -> AsyncIterator[StartPipeline]:
    """Return a function that starts pipelines as `open_otlp_pipeline` does. They end with the test."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> OtlpPipeline:
            return await stack.enter_async_context(open_otlp_pipeline(tmp_path, column_store, **options))

        yield start


@pytest.fixture
async def pipeline(start_pipeline: StartPipeline) -> OtlpPipeline:
    """Return a pipeline with the default limits."""
    started: OtlpPipeline = await start_pipeline()
    return started
