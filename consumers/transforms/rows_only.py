"""What a transform whose records become rows, and nothing else, has to say to the rest."""

from consumers.chunk import Chunk, RecordRows
from pipeline_contracts.records import LogRecord


class RowsOnly:
    """Changes nothing beside the rows."""

    follows_time = False

    async def apply(self, chunk: Chunk, partition: int) -> None:
        """Nothing beside the rows changes."""

    async def caught_up(self, partition: int, as_of_ms: int) -> None:
        """Nobody waits for it."""

    def refused(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        """Nobody is told, unless a transform says otherwise."""
        return None
