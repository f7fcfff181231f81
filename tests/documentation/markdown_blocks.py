"""Reads the fenced code blocks of the README and of `docs/`, with the comments that say how a test treats them."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = frozenset({"sh", "bash", "console"})

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w.+-]*)\s*$")
_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
_NEEDS = re.compile(r"^<!--\s*needs:\s*(.*?)\s*-->", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--\s*(?P<kind>not run|before|file|output)(?::\s*(?P<text>.*?))?\s*-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `notes` are the comments directly above it: their text by their kind."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where the first line of the block's text is: `docs/testing.md:12`."""
        return f"{self.page}:{self.line}"

    @property
    def reason_not_to_run(self) -> str | None:
        """The reason in `<!-- not run: … -->`, None for a block that runs."""
        return self.notes.get("not run")


def list_pages() -> list[Path]:
    """Return the README and all Markdown files of `docs/`, in the order of their names."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_blocks(page: Path, root: Path = ROOT) -> list[Block]:
    """Return the blocks of a page below `root` in their order. Raises `ValueError` for a fence that is not closed."""
    return list(_parse(page.read_text(encoding="utf-8"), str(page.relative_to(root))))


def list_missing_needs(page: Path) -> list[str]:
    """Return what the comments `<!-- needs: rails, module:celery -->` of a page name and this machine does not have:
    programs, and modules of the Python that runs the tests."""
    named = ",".join(_NEEDS.findall(page.read_text(encoding="utf-8")))
    return [name for name in map(str.strip, named.split(",")) if name and not _is_there(name)]


def find_unnamed_files(text: str) -> list[str]:
    """Return the names in `<!-- file: … -->` that the paragraph before their block does not show.

    Readers do not see the comment, so they would not know where to save the block.
    """
    lines = text.split("\n")
    unnamed = []
    for block in _parse(text, ""):
        if name := block.notes.get("file"):
            above = _HIDDEN.sub("", "\n".join(lines[: block.line - 2])).rstrip()
            paragraph = re.split(r"\n\s*\n", above)[-1]
            if name not in paragraph or paragraph.endswith("```"):
                unnamed.append(name)
    return unnamed


def _is_there(name: str) -> bool:
    kind, _, module = name.rpartition(":")
    return find_spec(module) is not None if kind == "module" else shutil.which(name) is not None


def _parse(text: str, page: str) -> Iterator[Block]:
    lines = text.split("\n")
    number = 0
    notes: dict[str, str] = {}
    while number < len(lines):
        line = lines[number]
        if opened := _FENCE.match(line):
            end = _find_end(lines, number, opened["ticks"], page)
            body = [one.removeprefix(opened["indent"]) for one in lines[number + 1 : end]]
            yield Block(page, number + 2, opened["language"], "".join(f"{one}\n" for one in body), notes)
            number, notes = end + 1, {}
        elif line.lstrip().startswith("<!--"):
            start = number
            while "-->" not in lines[number]:
                number += 1
            if comment := _COMMENT.search("\n".join(lines[start : number + 1])):
                notes = {**notes, comment["kind"]: comment["text"] or ""}
            number += 1
        else:
            notes = {} if line.strip() else notes
            number += 1


def _find_end(lines: list[str], start: int, ticks: str, page: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == ticks:
            return number
    raise ValueError(f"{page}:{start + 1}: the code block is not closed")
