"""The settings of this process, from its environment."""

import os
from pathlib import Path

from pipeline_contracts.read_settings import read_settings
from pipeline_contracts.settings import Settings


def load_settings() -> Settings:
    """Raises `BadSettings`."""
    return read_settings(os.environ, lambda path: Path(path).read_text())
