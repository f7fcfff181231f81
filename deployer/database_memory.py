"""What the deployer remembers of its database across restarts: the file `database.json` in its folder."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deployer.drivers.interface import DeployFailed, LastLive, Traces
from deployer.write_atomically import write_atomically

logger = logging.getLogger(__name__)

FILE = "database.json"
ACCEPT = "accept"
"""The text that a person writes into the file to make the deployer accept any database."""


class DatabaseRefused(DeployFailed):
    """The database is not the one whose applications run here. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """The state of a database when the deployer last read it."""

    token: str
    newest: int = 0
    """The ID of the newest deployment. 0 if there was none."""
    newest_at: str = ""
    """The creation time of the newest deployment. It tells databases apart: in another database, a different
    deployment has the same ID."""
    newest_project: str = ""
    """The project of the newest deployment. If the project is removed, its deployments are removed too."""
    live: Mapping[int, LastLive] = field(default_factory=dict)
    moved: Mapping[int, LastLive] = field(default_factory=dict)
    """The releases that were live on this deployer when another deployer took over their environments. The other
    deployer may not have started its instances yet."""


class DatabaseMemory:
    """Keeps the content of `database.json` in memory. A background task writes changes to the file, so that a slow
    disk delays neither the renewal of leases nor requests to applications."""

    def __init__(self, folder: Path, read_traces: Callable[[], Traces]) -> None:
        self._path = folder / FILE
        self.damage: str | None = None
        """Why the file cannot be used: a predicate whose subject is the name of the file. None if the file can be
        used."""
        self._is_stored = True
        self._fault: str | None = None
        self._storing: asyncio.Task[None] | None = None
        self.is_accepting = False
        """True if a person has written `ACCEPT` into the file."""
        self.known: Remembered | None = self._read()
        self.traces: Traces | None = None if self.known is not None else read_traces()
        """Evidence of earlier deployments. Only read if the file is missing or unreadable."""

    def remember(self, known: Remembered) -> None:
        """Store the state in memory at once, and in the file soon. The next call repeats a failed write."""
        if known != self.known:
            self.known, self._is_stored = known, False
        if not self._is_stored and (self._storing is None or self._storing.done()):
            self._storing = asyncio.create_task(self._store(), name=FILE)

    async def close(self) -> None:
        """Wait until the file is written, or the write has failed."""
        if self._storing is not None:
            await self._storing

    async def _store(self) -> None:
        while not self._is_stored:
            known = self.known
            assert known is not None
            try:
                await asyncio.to_thread(self._write, known)
            except OSError as error:
                if str(error) != self._fault:
                    logger.warning("%s cannot be written, and the write is repeated: %s", self._path, error)
                self._fault = str(error)
                return
            self._is_stored, self._fault = self.known is known, None

    def _write(self, known: Remembered) -> None:
        # If the file was half-written, the next start would refuse it.
        write_atomically(self._path, json.dumps(asdict(known)))

    def _read(self) -> Remembered | None:
        try:
            content = self._path.read_bytes()
            if not content.strip(b"\0 \n"):
                # The file no longer identifies the database, so an operator has to decide.
                self.damage = "is empty, as a power cut may have left it"
                return None
            if content.strip() == ACCEPT.encode():
                self.is_accepting = True
                return None
            found = json.loads(content)
            newest = (int(found["newest"]), str(found["newest_at"]), str(found["newest_project"]))
            live, moved = _read_live(found["live"]), _read_live(found.get("moved", {}))
            return Remembered(str(found["token"]), *newest, live, moved)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.damage = f"cannot be read ({type(error).__name__})"
            return None


def _read_live(found: Any) -> Mapping[int, LastLive]:
    return {
        int(number): LastLive(
            str(live["public_id"]), int(live["deployment_id"]), tuple(map(str, live["hosts"]))
        )
        for number, live in found.items()
    }
