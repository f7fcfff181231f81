"""The interface to the output of the processes of environments."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

MAX_BYTES = 256 * 1024
"""Bytes of the output of one process that are read at once."""


@dataclass(frozen=True, slots=True)
class OutputPart:
    """A part of the output of one process."""

    deployment_id: int
    """The deployment that started the process. Each deployment has its own output."""
    process: str
    number: int
    offset: int
    """The byte offset of the end of the last whole line of `text`; the next read starts here."""
    text: str
    """Whole lines."""
    rest: str
    """The beginning of a line that has no end yet."""
    is_truncated: bool
    """True if older output was rotated away since the last read, so lines may be missing."""

    @property
    def name(self) -> str:
        return f"{self.process}.{self.number}"

    @property
    def key(self) -> str:
        """The key of this output's offset, such as `7/web.1`."""
        return f"{self.deployment_id}/{self.name}"


class OutputUnreadable(Exception):
    """The output cannot be read. The message says why."""


class ProcessOutput(Protocol):
    """The output of the processes that one deployer runs; the deployer need not be running."""

    async def read(
        self,
        environment_id: str,
        offsets: Mapping[str, int],
        running: Mapping[int, Collection[str]],
        most_bytes: int = MAX_BYTES,
    ) -> list[OutputPart] | None:
        """Return the output of each process after its offset (by key, `7/web.1`), or its last lines without an offset.

        `environment_id` is the public one. `running`: the names of the running processes by deployment; if empty, read
        all processes of the newest deployment that has output. `most_bytes`: the limit for each process. Return None
        if this deployer has no output of the environment. Raises `OutputUnreadable`.
        """

    def belongs_to(self, deployer_name: str) -> bool:
        """Return True if this is the output of the deployer with this name, as in leases."""
