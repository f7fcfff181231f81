"""Fixtures for processes, all of which must have ended after the test."""

from tests.deployer.processes.conftest import nowhere, place

__all__ = ["nowhere", "place"]
