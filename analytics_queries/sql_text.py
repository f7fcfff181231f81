"""Loads the SQL beside a module."""

from pathlib import Path


def sql_beside(module_file: str) -> str:
    """The text of the `.sql` file that has the module's name."""
    return Path(module_file).with_suffix(".sql").read_text()
