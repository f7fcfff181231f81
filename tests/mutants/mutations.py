"""Planted faults: the table in `mutations.toml`, and how one is applied to a tree."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("mutations.toml")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault. `before` occurs exactly once in `file`, and `after` takes its place."""

    id: str
    file: str
    """Path from the root of the repository."""
    kind: str
    breaks: str
    """The effect of the fault on a user."""
    before: str
    after: str
    caught_by: str = ""
    """A test file or node ID that catches it: it runs first. A parameter's ID is left out."""

    @property
    def package(self) -> str:
        return self.file.partition("/")[0]

    def mutate(self, text: str) -> str:
        """Return the file's text with the fault in it. Raises `ValueError` unless `before` occurs exactly once."""
        found = text.count(self.before)
        if found != 1:
            raise ValueError(f"{self.id}: the original text occurs {found} times in {self.file} (expected 1)")
        return text.replace(self.before, self.after)


def load_mutations() -> Sequence[Mutation]:
    """Return all mutations in the order of the table."""
    return [Mutation(**entry) for entry in tomllib.loads(_TABLE.read_text())["mutation"]]
