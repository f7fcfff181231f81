"""Bounded reads of an application's folder. Nothing outside of the folder is read, and nothing is run."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_MAX_BYTES = 256 * 1024
_MAX_FILES = 2000
_MAX_DEPTH = 4
_SKIPPED = frozenset(
    ("node_modules", "vendor", "venv", "env", "__pycache__", "dist", "build", "target", "tests", "test")
)
_HEALTH = re.compile(r"""["'`](/?(?:healthz?|health[-_/]?check|livez|readyz|up|ping|status)/?)["'`]""")


class SourceFiles:
    """The files of an application."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, *names: str) -> bool:
        """Return True if one of these files or folders exists."""
        return any((self.folder / name).exists() for name in names)

    def read(self, name: str) -> str:
        """Return the beginning of a file; empty if it cannot be read."""
        path = self.folder / name
        try:
            # Links may lead out of the folder, and a FIFO would block.
            if not path.is_file() or not path.resolve().is_relative_to(self.folder.resolve()):
                return ""
            with path.open("rb") as file:
                return file.read(_MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def list(self, suffixes: Sequence[str]) -> list[str]:
        """Return the paths of files with these suffixes, the highest folders first; not those of dependencies and
        tests."""
        found = list(self._walk(tuple(suffixes)))
        return sorted(found, key=lambda name: (name.count("/"), name))

    def _walk(self, suffixes: tuple[str, ...]) -> Iterator[str]:
        count = 0
        for root, folders, names in os.walk(self.folder):
            depth = len(Path(root).relative_to(self.folder).parts)
            folders[:] = sorted(
                name
                for name in folders
                if depth < _MAX_DEPTH and name not in _SKIPPED and not name.startswith(".")
            )
            for name in sorted(names):
                count += 1
                if count > _MAX_FILES:
                    return
                if name.endswith(suffixes):
                    yield str((Path(root) / name).relative_to(self.folder))

    def find_health_path(self, names: Sequence[str]) -> str | None:
        """Return a route in these files whose name is that of a health check."""
        for name in names:
            match = _HEALTH.search(self.read(name))
            if match is not None:
                return "/" + match[1].lstrip("/")
        return None
