"""What an operator's actions work on, what they are given, and what they all are."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from control_domain.database.engine import Sessions
from control_domain.sealing import SealingKeys
from operator_actions.refusals import Refused
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory


@dataclass(frozen=True, slots=True)
class Engines:
    """What an action works on."""

    sessions: Sessions
    directory: KeyDirectory
    store: ColumnStore | None = None
    """What was taken in; None where it cannot be reached from here."""
    variable_keys: SealingKeys | None = None
    """What opens variables; None where it is not set here."""

    def column_store(self) -> ColumnStore:
        """Raises `Refused` where it is not set."""
        if self.store is None:
            raise Refused("Set PHAROS_CLICKHOUSE_URL as well: what was taken in lies there.")
        return self.store

    def sealing_keys(self) -> SealingKeys:
        """Raises `Refused` where they are not set."""
        if self.variable_keys is None:
            raise Refused("Set PHAROS_VARIABLES_KEY as well: variables are sealed with it.")
        return self.variable_keys


Params = dict[str, Any]
Action = Callable[[Engines, Params, datetime], Awaitable[Any]]
"""Gets the parameters as they came, gives a document. Raises `Refused`, `ValueError` and `KeyError` for bad ones."""
