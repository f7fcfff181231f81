"""A place for processes, of which nothing may be left after the test."""

from tests.deployer.processes.conftest import nowhere, place

__all__ = ["nowhere", "place"]
