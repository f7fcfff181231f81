"""How far each file was sent, kept in small files under `DIR/send-state`, so that a send can be cut off anywhere.

What makes a file the same file is its text, not its name: it may be moved, rotated, compressed, and grow. Batches
that are full follow from the text alone. A batch that is short because the file ended there is written down
before it is sent, so that it has the same end when it is sent again, although the file may have grown.
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

from operator_cli.failure import CommandFailed
from operator_cli.sending.batches import Batch, Place, first_place
from operator_cli.sending.sources import Source

# The text that tells files apart. Of a file with less the place on the disk has to be the same as well.
_HEAD_BYTES = 4096


class State(msgspec.Struct, frozen=True):
    """One file under `send-state`. Offsets are of uncompressed text. `planned` are the ends, beyond
    `acknowledged`, of batches that are short because the file ended there; `finished` tells that nothing beyond
    `acknowledged` was ever sent."""

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
    """How far one file was sent. Takes batches as they are cut, hears of them as they are delivered in any order."""

    def __init__(self, file: Path | None, state: State, saved: State | None) -> None:
        self._file = file
        self._state = state
        self._saved = saved
        self._writing = threading.Lock()
        self._taken: deque[Batch] = deque()
        self._delivered: set[int] = set()

    @property
    def start(self) -> Place:
        """Where to go on."""
        return Place(self._state.acknowledged, self._state.line, self._state.batch_id)

    @property
    def planned(self) -> tuple[int, ...]:
        """Ends that batches had for the end of the file."""
        return self._state.planned

    @property
    def most_events(self) -> int:
        """Most events of a batch: those of the first try, until all of it is acknowledged."""
        return self._state.most_events

    def take(self, batch: Batch) -> None:
        """A batch is about to be sent; the next one follows it in the file."""
        self._taken.append(batch)

    def plan(self, end: int) -> None:
        """Write down, before it is sent, that a batch ends at `end` for the end of the file."""
        self._change(planned=tuple(sorted({*self._state.planned, end})))
        self.save()

    def deliver(self, batch: Batch) -> None:
        """A batch is acknowledged. The place moves on when all before it are."""
        self._delivered.add(id(batch))
        last = None
        while self._taken and id(self._taken[0]) in self._delivered:
            last = self._taken.popleft()
            self._delivered.discard(id(last))
        if last is not None and last.end.offset > self._state.acknowledged:
            self._change(
                acknowledged=last.end.offset,
                line=last.end.line,
                batch_id=last.end.batch_id,
                end_bytes=len(last.end_text),
                end=_digest(last.end_text),
                planned=tuple(end for end in self._state.planned if end > last.end.offset),
            )

    def finish(self) -> None:
        """All batches to the end of the file were acknowledged."""
        self._change(finished=True)
        self.save()

    def save(self) -> None:
        """Replace the file by the newest state, on the disk when this returns. May run in any thread."""
        if self._file is None:
            return
        with self._writing:
            state = self._state
            if state == self._saved:
                return
            write_state(self._file, state)
            self._saved = state

    def _change(self, **fields: object) -> None:
        # Replaced as a whole: a thread that is saving sees one state or the other.
        self._state = msgspec.structs.replace(self._state, **fields)


class ProgressFolder:
    """The states of one destination in `folder`. `source` sets files apart that hold the same text."""

    def __init__(self, folder: Path, destination: str, source: str) -> None:
        self._folder = folder
        self._prefix = _digest(destination.encode())[:16]
        self._source = source
        self._read: dict[Path, tuple[tuple[int, int], State | None]] = {}

    @contextmanager
    def open(self, source: Source, most_events: int) -> Iterator[Progress]:
        """The progress of one file, held by this process alone; saved when left, however that happens.

        A stream has none: its batch IDs are those of this run. Raises `CommandFailed` when another process sends
        the same file.
        """
        if source.is_stream:
            begin = first_place(secrets.token_hex(16))
            yield Progress(None, self._new_state(source, b"", most_events, begin), None)
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CommandFailed(f"{self._folder} cannot be made: {error.strerror}") from None
        head = source.read_at(0, _HEAD_BYTES)
        with _locked(self._folder, wait=True):
            file, state = self._find(source, head)
            if file is None or state is None:
                file = self._folder / f"{self._prefix}-{secrets.token_hex(8)}.json"
                state = self._new_state(source, head, most_events, first_place(self._source))
                write_state(file, state)
            lock = file.with_suffix(".lock")
            lock.touch(mode=0o600)
        with _locked(lock, wait=False, busy=f"Another `pharos send` is sending {source.name}."):
            # It may have been moved on between the look and the lock.
            saved = state = _read_state(file) or state
            if state.finished:
                state = msgspec.structs.replace(state, most_events=most_events, finished=False)
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

    def _new_state(self, source: Source, head: bytes, most_events: int, begin: Place) -> State:
        return State(
            path=source.path,
            source=self._source,
            device=source.device,
            inode=source.inode,
            head_bytes=len(head),
            head=_digest(head),
            acknowledged=0,
            line=0,
            batch_id=begin.batch_id,
            end_bytes=0,
            end=_digest(b""),
            most_events=most_events,
        )

    def _find(self, source: Source, head: bytes) -> tuple[Path | None, State | None]:
        """The state of the same file: the one that got furthest, if there are several."""
        best: tuple[Path | None, State | None] = (None, None)
        for file in sorted(self._folder.glob(f"{self._prefix}-*.json")):
            state = self._read_again(file)
            if state is None or state.source != self._source or not _same_head(state, source, head):
                continue
            if best[1] is not None and best[1].acknowledged >= state.acknowledged:
                continue
            end = source.read_at(state.acknowledged - state.end_bytes, state.end_bytes)
            if _digest(end) == state.end:
                best = (file, state)
        return best

    def _read_again(self, file: Path) -> State | None:
        """The state in `file`; a file that nobody has replaced since is not read twice."""
        status = file.stat()
        version = (status.st_ino, status.st_mtime_ns)
        known = self._read.get(file)
        if known is None or known[0] != version:
            known = self._read[file] = (version, _read_state(file))
        return known[1]


def _same_head(state: State, source: Source, head: bytes) -> bool:
    if state.head_bytes > len(head) or _digest(head[: state.head_bytes]) != state.head:
        return False
    if state.head_bytes == _HEAD_BYTES:
        return True
    same_place = (state.device, state.inode) == (source.device, source.inode)
    return same_place or state.path == source.path


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read_state(file: Path) -> State | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=State)
    except (FileNotFoundError, msgspec.DecodeError):
        # Of a newer version, or not ours: left alone.
        return None


def write_state(file: Path, state: State) -> None:
    """Replace `file` as a whole; it is on the disk when this returns. Raises `CommandFailed`."""
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
    """Hold `path` for this process; the lock ends with the process, whatever ends it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise CommandFailed(busy) from None
        yield
    finally:
        os.close(descriptor)
