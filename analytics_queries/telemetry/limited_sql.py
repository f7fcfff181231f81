"""Loads SQL of reads that anybody with an API token may ask for: with limits for time and memory."""

from collections.abc import Mapping
from pathlib import Path

from storage_backends.sql_files import read_sql, read_statements

# The embedded engine runs in the process that accepts telemetry.
LIMITS = "\nSETTINGS max_execution_time = 20, max_memory_usage = 1073741824, max_threads = 2"


def read_limited_sql(module_file: str | Path) -> str:
    """Return the text of the module's `.sql` file with the limits. A query that exceeds them raises
    `StorageUnavailable`."""
    return read_sql(module_file).rstrip() + LIMITS


def read_limited_statements(module_file: str | Path) -> Mapping[str, str]:
    """Return the statements of the module's `.sql` file by name, each with the limits."""
    return {name: text + LIMITS for name, text in read_statements(module_file).items()}
