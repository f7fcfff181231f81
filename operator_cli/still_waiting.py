"""What commands that follow something say when the installation is away for a while."""

import sys

from operator_cli.failure import NotReached
from operator_cli.typed_commands import typed_commands


class StillWaiting:
    """Says it once each time."""

    def __init__(self) -> None:
        self._is_told = False

    def tell(self, failure: NotReached) -> None:
        """It is away."""
        if not self._is_told:
            print(typed_commands(f"pharos: {failure} Still waiting."), file=sys.stderr)
        self._is_told = True

    def end(self) -> None:
        """It is there again."""
        self._is_told = False
