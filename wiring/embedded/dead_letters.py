"""Reads and replays dead letters in the embedded log, beside a running process or without one."""

from dataclasses import dataclass
from pathlib import Path

from consumers.dead_letters import decode_dead_letter
from pipeline_contracts.topics import dead_letter_topic
from storage_backends.event_log.sqlite_offline import read_topic, requeue_records


@dataclass(frozen=True, slots=True)
class Buried:
    """A dead letter. `id` is its offset among the dead of its topic."""

    id: int
    log: str
    offset: int
    reason: str
    died_ms: int
    body: bytes


def list_dead_letters(path: Path, topic: str) -> list[Buried]:
    """The dead letters of a topic, oldest first; a record that was buried twice shows once.

    Raises `StorageUnavailable`.
    """
    letters: dict[tuple[str, int], Buried] = {}
    for record in read_topic(path, dead_letter_topic(topic)):
        letter = decode_dead_letter(record.meta)
        letters.setdefault(
            (letter.log, letter.offset),
            Buried(record.offset, letter.log, letter.offset, letter.reason, letter.died_ms, record.value),
        )
    return list(letters.values())


def replay_dead_letters(path: Path, topic: str, ids: set[int]) -> int:
    """Move the letters with these IDs (none: all) back into their topic, in one transaction; gives their number.

    Raises `StorageUnavailable`.
    """
    chosen = {(b.log, b.offset) for b in list_dead_letters(path, topic) if not ids or b.id in ids}

    def original(meta: bytes) -> tuple[tuple[str, int], bytes]:
        letter = decode_dead_letter(meta)
        return (letter.log, letter.offset), letter.meta

    return requeue_records(path, dead_letter_topic(topic), topic, original, chosen)
