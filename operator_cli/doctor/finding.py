"""The result of one check of `pharos doctor`."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "error"]
"""`warning`: Pharos runs, with less than it could have. `error`: it does not run, or cannot deploy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    status: Status
    detail: str
    advice: str | None = None
    """What to do about a warning or an error; None if `detail` says it."""
