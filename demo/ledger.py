"""Records which parts of the demo exist, so that a second start adds nothing twice."""

import asyncio
import json
from pathlib import Path
from typing import Any

from control_domain.first_account.account import write_private

LEGACY_MARK = "demo-visits"
"""The file with which earlier versions marked that past visits exist."""


class Ledger:
    """Names of parts, with the numbers, keys and times that later parts need. Stored in a file that only its owner may
    read, because some values are secret."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expected: dict[str, asyncio.Event] = {}
        self._parts: dict[str, Any] = {}
        if path.exists():
            self._parts = json.loads(path.read_text())
        elif path.with_name(LEGACY_MARK).exists():
            self._parts = {"visits": True}

    def has(self, part: str) -> bool:
        return part in self._parts

    def get(self, part: str) -> Any:
        """Return the values stored for the part; None if the part does not exist."""
        return self._parts.get(part)

    def note(self, part: str, value: Any = True) -> None:
        """Store durably that the part exists."""
        self._parts[part] = value
        if (event := self._expected.get(part)) is not None:
            event.set()
        write_private(self._path, json.dumps(self._parts) + "\n")

    async def wait_for(self, part: str) -> None:
        """Wait until the part exists."""
        if not self.has(part):
            await self._expected.setdefault(part, asyncio.Event()).wait()
