"""The package in its published form."""

import ast
import sys
from pathlib import Path

import pytest

_CLIENTS = Path(__file__).parents[3] / "clients"
_PACKAGE = _CLIENTS / "python" / "src" / "pharos_client"
# Only one module imports each library. Applications import that module if they use the library.
_OPTIONAL = {
    "celery.py": "celery",
    "rq.py": "rq",
    "dramatiq.py": "dramatiq",
    "opentelemetry.py": "opentelemetry",
}


def test_pharos_run_is_the_single_file() -> None:
    """`clients/run/pharos_run.py` is the source. After a change: cp clients/run/pharos_run.py to the package."""
    assert (_PACKAGE / "pharos_run.py").read_bytes() == (_CLIENTS / "run" / "pharos_run.py").read_bytes()


@pytest.mark.parametrize("path", sorted(_PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_a_module_needs_the_standard_library_only(path: Path) -> None:
    allowed = {*sys.stdlib_module_names, "pharos_client", _OPTIONAL.get(path.name, "")}
    # Python 3.9 is the oldest supported version.
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported <= allowed
    assert "from __future__ import annotations" in path.read_text() or not imported
