"""Messages of the control domain name no command and no flag: the clients of the API are not all command lines."""

import ast
import re
from pathlib import Path

import control_domain

_COMMAND = re.compile(r"`pharos |(?<![\w-])--[a-z]")
_FOLDER = Path(control_domain.__file__).parent


def _texts(path: Path) -> list[str]:
    """Return all string literals except docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_no_module_names_a_command_or_a_flag() -> None:
    found = {
        path.relative_to(_FOLDER).as_posix()
        for path in _FOLDER.rglob("*.py")
        if any(_COMMAND.search(text) for text in _texts(path))
    }
    assert found == set()
