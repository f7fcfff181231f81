"""Faults of a document and their places."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_FAULTS = 20
"""The number of faults that are reported."""
_MAX_COLLECTED = 5 * MAX_FAULTS
_MAX_QUOTED = 60
_PLAIN = re.compile("[A-Za-z0-9_./-]{1,60}")

Places = tuple[str | int | None, ...]
"""The keys and indexes that lead to a value."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its path (`processes.web.health.path`, `build.steps[2]`; empty for the whole document), its line from
    1, and a message."""

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
    """An invalid document; `faults` are its first `MAX_FAULTS`, in the order of their lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line)[:MAX_FAULTS])
        super().__init__("; ".join(map(str, self.faults)))


def add_fault(faults: list[Fault], fault: Fault) -> None:
    """Add a fault. Raises `DocumentFault` with all faults once their limit is reached."""
    faults.append(fault)
    if len(faults) >= _MAX_COLLECTED:
        raise DocumentFault(faults)


def format_path(places: Iterable[str | int | None]) -> str:
    """Return the path of a value, such as `build.steps[2]`, without places that are None."""
    path = ""
    for place in places:
        if isinstance(place, int):
            path = f"{path}[{place}]"
        elif place is not None:
            key = place if _PLAIN.fullmatch(place) else quote(place)
            path = f"{path}.{key}" if path else key
    return path


def quote(text: str) -> str:
    """Return a text of the document in quotes, shortened and escaped for one line of a message."""
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 1]}…")
