"""Recognizes which kind of application a folder has."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from operator_cli.init.go_apps import find_go
from operator_cli.init.node_apps import find_node
from operator_cli.init.procfile import apply_procfile, read_procfile
from operator_cli.init.proposal import Proposal
from operator_cli.init.python_apps import find_python
from operator_cli.init.ruby_apps import find_ruby
from operator_cli.init.source_files import SourceFiles
from operator_cli.init.static_sites import find_static

# Many Rails, Django and Go applications have a package.json for their styles.
_KINDS: Final[Sequence[Callable[[SourceFiles], Proposal | None]]] = (
    find_ruby,
    find_python,
    find_go,
    find_node,
    find_static,
)


def recognize(folder: Path) -> Proposal | None:
    """Return the proposal for the application in this folder; None if nothing is recognized."""
    files = SourceFiles(folder)
    found = next((proposal for find in _KINDS if (proposal := find(files)) is not None), None)
    if found is None and read_procfile(files):
        found = Proposal("Procfile")
        apply_procfile(files, found, "")
    if found is None:
        return None
    if found.kind not in ("Node", "Express", "Next.js", "Vite", "static site") and files.has("package.json"):
        found.hints.append("package.json is not used: add a build step if it makes styles or scripts.")
    if files.has("Dockerfile"):
        found.hints.append("The Dockerfile is not used: Pharos builds and runs without containers.")
    return found
