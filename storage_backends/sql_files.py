"""Loads SQL from the `.sql` file that lies next to a module and has its name."""

import re
from collections.abc import Mapping
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def read_sql(module_file: str | Path) -> str:
    """Return the text of the module's `.sql` file."""
    return Path(module_file).with_suffix(".sql").read_text()


def read_statements(module_file: str | Path) -> Mapping[str, str]:
    """Return the statements of the module's `.sql` file by name. A statement begins with the line `-- name: <name>`
    and ends before the next such line. Text before the first statement is a comment on all of them."""
    _, *parts = _NAME.split(read_sql(module_file))
    return {name: text.strip().removesuffix(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}
