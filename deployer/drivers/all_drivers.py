"""The list of all drivers. To add a driver, add its package and a line in this module."""

from pathlib import Path

from control_domain.process_output import ProcessOutput
from deployer.drivers.local.process_output import LocalProcessOutput


def open_process_output(folder: Path) -> ProcessOutput:
    """Return an object that reads the output of processes from the deployer's folder."""
    return LocalProcessOutput(folder)
