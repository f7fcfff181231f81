"""What is wrong with a document, and where."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST_FAULTS = 20
"""As many are told."""
_MOST_LOOKED_FOR = 5 * MOST_FAULTS
_LONGEST_NAMED = 60
_PLAIN = re.compile("[A-Za-z0-9_./-]{1,60}")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: its place (`processes.web.health.path`, `build.steps[2]`; empty for the whole document),
    its line from 1, and why."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return (
            f"line {self.line}: {self.path}: {self.message}"
            if self.path
            else f"line {self.line}: {self.message}"
        )


class DocumentFault(Exception):
    """A document that cannot be; `faults` are its first `MOST_FAULTS`, in the order of their lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line)[:MOST_FAULTS])
        super().__init__("; ".join(map(str, self.faults)))


def add_fault(faults: list[Fault], fault: Fault) -> None:
    """One more. Raises `DocumentFault` with all of them where there are so many that to look for more is of no use."""
    faults.append(fault)
    if len(faults) >= _MOST_LOOKED_FOR:
        raise DocumentFault(faults)


def join_path(path: str, key: str) -> str:
    """The path of a mapping's member."""
    told = key if _PLAIN.fullmatch(key) else name(key)
    return f"{path}.{told}" if path else told


def name(text: str) -> str:
    """A text of the document, in quotes, fit for one line of a message."""
    return repr(text if len(text) <= _LONGEST_NAMED else f"{text[: _LONGEST_NAMED - 1]}…")
