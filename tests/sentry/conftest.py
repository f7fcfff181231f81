"""A pipeline for each test, over the column store of the run."""

from tests.otlp.conftest import pipeline, start_pipeline

__all__ = ["pipeline", "start_pipeline"]
