"""Lists and replays dead letters of the embedded log, whether or not a process runs on it."""

from dataclasses import dataclass
from pathlib import Path

from consumers.dead_letters import decode_dead_letter
from pipeline_contracts.topics import dead_letter_topic
from storage_backends.event_log.sqlite_offline import read_topic, requeue_records


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter. `id` is its offset in the dead-letter topic; `log` and `offset` are those of the original
    record."""

    id: int
    log: str
    offset: int
    reason: str
    died_ms: int
    body: bytes


def list_dead_letters(path: Path, topic: str) -> list[DeadLetter]:
    """Return the dead letters of a topic, oldest first. A record with two dead letters is listed once.

    Raises `StorageUnavailable`.
    """
    letters: dict[tuple[str, int], DeadLetter] = {}
    for record in read_topic(path, dead_letter_topic(topic)):
        letter = decode_dead_letter(record.meta)
        letters.setdefault(
            (letter.log, letter.offset),
            DeadLetter(record.offset, letter.log, letter.offset, letter.reason, letter.died_ms, record.value),
        )
    return list(letters.values())


def replay_dead_letters(path: Path, topic: str, ids: set[int]) -> int:
    """Move the dead letters with these IDs (none: all) back into their topic in one transaction; return their number.

    Raises `StorageUnavailable`.
    """
    chosen = {(b.log, b.offset) for b in list_dead_letters(path, topic) if not ids or b.id in ids}

    def original(meta: bytes) -> tuple[tuple[str, int], bytes]:
        letter = decode_dead_letter(meta)
        return (letter.log, letter.offset), letter.meta

    return requeue_records(path, dead_letter_topic(topic), topic, original, chosen)
