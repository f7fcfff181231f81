"""Fixtures for processes, all of which must have ended after the test."""

from tests.deployer.processes.conftest import null_output, sandbox

__all__ = ["null_output", "sandbox"]
