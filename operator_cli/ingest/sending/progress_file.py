"""The progress of each file, in small files under `DIR/send-state`, so that `pharos send` can resume after any end.

A file is identified by its text, not by its name: it may be moved, rotated, compressed, and grow. Full batches follow
from the text alone. The end of a batch that is short because the file ended there is saved before the batch is sent,
so that the batch ends there again when it is resent, even if the file has grown.
"""

import fcntl
import hashlib
import os
import secrets
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.batches import Batch, Position, first_position
from operator_cli.ingest.sending.sources import Source

# The text that identifies a file. A shorter file must also have the same inode or path.
_HEAD_BYTES = 4096


class State(msgspec.Struct, frozen=True):
    """The JSON of one file under `send-state`. Offsets are those of uncompressed text.

    `planned` are the ends, after `acknowledged`, of batches that are short because the file ended there. `finished` is
    True if nothing after `acknowledged` was ever sent.
    """

    path: str
    source: str
    device: int
    inode: int
    head_bytes: int
    head: str
    acknowledged: int
    line: int
    batch_id: str
    end_bytes: int
    end: str
    most_events: int
    planned: tuple[int, ...] = ()
    finished: bool = False


class Progress:
    """The progress of one file. Batches begin in the order of the file and are acknowledged in any order."""

    def __init__(self, file: Path | None, state: State, saved: State | None) -> None:
        self._file = file
        self._state = state
        self._saved = saved
        self._save_lock = threading.Lock()
        self._begun: deque[Batch] = deque()
        self._delivered: set[int] = set()

    @property
    def start(self) -> Position:
        """Return the position to resume from."""
        return Position(self._state.acknowledged, self._state.line, self._state.batch_id)

    @property
    def short_ends(self) -> tuple[int, ...]:
        """Return the ends of batches that were short because the file ended there."""
        return self._state.planned

    @property
    def max_events(self) -> int:
        """Return the batch size, which stays the same until the whole file is acknowledged."""
        return self._state.most_events

    def begin(self, batch: Batch) -> None:
        """Note that a batch is about to be sent; batches begin in the order of the file."""
        self._begun.append(batch)

    def add_short_end(self, end: int) -> None:
        """Save, before a batch is sent, that it ends at `end` because the file ends there."""
        self._change(planned=tuple(sorted({*self._state.planned, end})))
        self.save()

    def acknowledge(self, batch: Batch) -> None:
        """Note that a batch is acknowledged. `start` advances once all earlier batches are."""
        self._delivered.add(id(batch))
        last = None
        while self._begun and id(self._begun[0]) in self._delivered:
            last = self._begun.popleft()
            self._delivered.discard(id(last))
        if last is not None and last.end.offset > self._state.acknowledged:
            self._change(
                acknowledged=last.end.offset,
                line=last.end.line,
                batch_id=last.end.batch_id,
                end_bytes=len(last.tail),
                end=_digest(last.tail),
                planned=tuple(end for end in self._state.planned if end > last.end.offset),
            )

    def finish(self) -> None:
        """Save that all batches to the end of the file were acknowledged."""
        self._change(finished=True)
        self.save()

    def save(self) -> None:
        """Write the newest state to disk. May run in any thread."""
        if self._file is None:
            return
        with self._save_lock:
            state = self._state
            if state == self._saved:
                return
            write_state(self._file, state)
            self._saved = state

    def _change(self, **fields: object) -> None:
        # Replaced as a whole, so that a thread that is saving sees a consistent state.
        self._state = msgspec.structs.replace(self._state, **fields)


class ProgressFolder:
    """The states of one destination in `folder`. `source` distinguishes files with the same text."""

    def __init__(self, folder: Path, destination: str, source: str) -> None:
        self._folder = folder
        self._prefix = _digest(destination.encode())[:16]
        self._source = source
        self._read: dict[Path, tuple[tuple[int, int], State | None]] = {}

    @contextmanager
    def open(self, source: Source, max_events: int) -> Iterator[Progress]:
        """Open the progress of one file, locked by this process, and save it on any exit.

        A stream has no saved progress: its batch IDs are random. Raises `CommandFailed` if another process sends the
        same file.
        """
        if source.is_stream:
            start = first_position(secrets.token_hex(16))
            yield Progress(None, self._new_state(source, b"", max_events, start), None)
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CommandFailed(f"{self._folder} cannot be made: {error.strerror}") from None
        head = source.read_at(0, _HEAD_BYTES)
        with _locked(self._folder, wait=True):
            file, state = self._find_state(source, head)
            if file is None or state is None:
                file = self._folder / f"{self._prefix}-{secrets.token_hex(8)}.json"
                state = self._new_state(source, head, max_events, first_position(self._source))
                write_state(file, state)
            lock = file.with_suffix(".lock")
            lock.touch(mode=0o600)
        with _locked(lock, wait=False, busy=f"Another `pharos send` is sending {source.name}."):
            # Another process may have saved progress between the search and the lock.
            saved = state = _read_state(file) or state
            if state.finished:
                state = msgspec.structs.replace(state, most_events=max_events, finished=False)
            state = msgspec.structs.replace(
                state,
                path=source.path,
                device=source.device,
                inode=source.inode,
                head_bytes=len(head),
                head=_digest(head),
            )
            progress = Progress(file, state, saved)
            progress.save()
            try:
                yield progress
            finally:
                progress.save()

    def _new_state(self, source: Source, head: bytes, max_events: int, start: Position) -> State:
        return State(
            path=source.path,
            source=self._source,
            device=source.device,
            inode=source.inode,
            head_bytes=len(head),
            head=_digest(head),
            acknowledged=0,
            line=0,
            batch_id=start.batch_id,
            end_bytes=0,
            end=_digest(b""),
            most_events=max_events,
        )

    def _find_state(self, source: Source, head: bytes) -> tuple[Path | None, State | None]:
        """Return the state file and the state of this source, the most advanced one if there are several."""
        best: tuple[Path | None, State | None] = (None, None)
        for file in sorted(self._folder.glob(f"{self._prefix}-*.json")):
            state = self._read_cached_state(file)
            if state is None or state.source != self._source or not _has_same_head(state, source, head):
                continue
            if best[1] is not None and best[1].acknowledged >= state.acknowledged:
                continue
            end = source.read_at(state.acknowledged - state.end_bytes, state.end_bytes)
            if _digest(end) == state.end:
                best = (file, state)
        return best

    def _read_cached_state(self, file: Path) -> State | None:
        """Return the state in `file`, from a cache if the file has not been replaced."""
        status = file.stat()
        version = (status.st_ino, status.st_mtime_ns)
        known = self._read.get(file)
        if known is None or known[0] != version:
            known = self._read[file] = (version, _read_state(file))
        return known[1]


def _has_same_head(state: State, source: Source, head: bytes) -> bool:
    if state.head_bytes > len(head) or _digest(head[: state.head_bytes]) != state.head:
        return False
    if state.head_bytes == _HEAD_BYTES:
        return True
    has_same_inode = (state.device, state.inode) == (source.device, source.inode)
    return has_same_inode or state.path == source.path


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read_state(file: Path) -> State | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=State)
    except (FileNotFoundError, msgspec.DecodeError):
        # Written by a newer version, or not a state file: left alone.
        return None


def write_state(file: Path, state: State) -> None:
    """Replace `file` atomically and sync it to disk. Raises `CommandFailed`."""
    new = file.with_suffix(".new")
    try:
        with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
            output.write(msgspec.json.encode(state))
            output.flush()
            os.fsync(output.fileno())
        new.replace(file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from None


@contextmanager
def _locked(path: Path, *, wait: bool, busy: str = "") -> Iterator[None]:
    """Lock `path` for this process. Without `wait`, raises `CommandFailed` with the text `busy` if it is locked.

    The lock ends with the process, however the process ends.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise CommandFailed(busy) from None
        yield
    finally:
        os.close(descriptor)
