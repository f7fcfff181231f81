"""All drivers. A new driver is a package and a line here."""

from pathlib import Path

from control_domain.process_output import ProcessOutput
from deployer.drivers.local.process_output import LocalProcessOutput


def open_process_output(folder: Path) -> ProcessOutput:
    """Return the output of the deployer that has this folder."""
    return LocalProcessOutput(folder)
