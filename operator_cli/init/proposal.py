"""What is proposed for an application: the parts of its workflow document, and what could not be recognized."""

from dataclasses import dataclass, field
from typing import Final

HOST: Final = "127.0.0.1"
WEB: Final = "web"


@dataclass(slots=True)
class Proposal:
    """The workflow of one application."""

    kind: str
    """Such as `Django`."""
    found: list[str] = field(default_factory=list)
    """What the proposal is derived from, one fact each."""
    build: list[str] = field(default_factory=list)
    release: list[str] = field(default_factory=list)
    processes: dict[str, str] = field(default_factory=dict)
    """Commands by process name."""
    health: str | None = None
    """The path of the health check of `web`; None: the check waits for the port only."""
    hints: list[str] = field(default_factory=list)
    """What could not be recognized or has to be changed, one sentence each."""
