"""Runs guides that need packages of other registries: their files are written, their shell blocks run in one shell."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
_BLOCK = re.compile(r"((?:^<!-- .*? -->\n)*)^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"<!-- file: (\S+) -->")
_INSTALLS = "it installs packages"


def read_guide(name: str, heading: str | None = None) -> tuple[dict[str, str], str]:
    """Return the files of a guide by name, and its shell blocks as one script, without those that install packages.

    `heading` selects the part above the first heading of the second level, and the part below this heading.
    """
    text = (GUIDES / name).read_text(encoding="utf-8")
    if heading is not None:
        head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
        text = head + "".join(section for section in sections if section.startswith(f"{heading}\n"))
    files: dict[str, str] = {}
    commands = []
    for comments, language, body in _BLOCK.findall(text):
        if named := _FILE.search(comments):
            files[named[1]] = body
        elif language == "sh" and _INSTALLS not in comments:
            commands.append(body)
    assert commands, f"{name} has no shell block below {heading}"
    return files, "".join(commands)


def read_exports(name: str, variable: str, **variables: str) -> dict[str, str]:
    """Return what the only shell block of a guide that exports `variable` exports, with these variables set."""
    text = (GUIDES / name).read_text(encoding="utf-8")
    (block,) = (
        body for _, language, body in _BLOCK.findall(text) if language == "sh" and f"{variable}=" in body
    )
    names = re.findall(r"[A-Z_]+(?==)", block)
    printed = run_script(
        GUIDES, f"{block}printenv --null {' '.join(names)}", {**variables, "PATH": os.defpath}
    )
    return dict(zip(names, printed.rstrip("\0").split("\0"), strict=True))


def run_script(folder: Path, script: str, variables: Mapping[str, str], timeout: float = 120) -> str:
    """Run a script that ends at the first command that fails; return its output. Raises `AssertionError`."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout
