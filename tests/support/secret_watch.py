"""Searches for leaked secrets in command lines, environments, files and texts."""

import base64
import os
import stat
import subprocess
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.installation import App, find_processes

_PAUSE_SECONDS = 0.03
_NOBODY = 65534
_LARGEST = 32 * 2**20
_BASE64_PIECE = 10


class Needles:
    """Search patterns: parts of secrets that no quoting or escaping changes, their base64 forms, and `more`."""

    def __init__(self, parts: Iterable[str], more: Iterable[bytes] = ()) -> None:
        plain = [part.encode() for part in parts]
        self._needles = [*plain, *(piece for part in plain for piece in _in_base64(part)), *more]

    def are_in(self, data: bytes | str) -> bool:
        """Return whether the data contains any of the patterns."""
        content = data.encode() if isinstance(data, str) else data
        return any(needle in content for needle in self._needles)


def _in_base64(part: bytes) -> Iterator[bytes]:
    """Yield pieces of the base64 form at each of the three possible offsets. Line breaks may be anywhere."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + part)
        own = encoded[-(-before * 8 // 6) : (before + len(part)) * 8 // 6]
        yield from (
            own[at : at + _BASE64_PIECE] for at in range(0, len(own) - _BASE64_PIECE + 1, _BASE64_PIECE)
        )


class ProcessWatch:
    """Reads, while entered, the properties of the machine's processes that every user can see."""

    def __init__(self, app: App, needles: Needles) -> None:
        self._needles = needles
        self._uids = range(app.first_uid, app.first_uid + 2)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.scans = 0
        self.found: list[str] = []
        """Command lines with a secret."""
        self.attempted: set[int] = set()
        """Processes of the application whose environment another user has tried to read."""
        self.readable: list[int] = []
        """Processes whose environment another user could read."""

    def __enter__(self) -> "ProcessWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE_SECONDS):
            self.scans += 1
            for name in filter(str.isdecimal, os.listdir("/proc")):
                with suppress(FileNotFoundError, ProcessLookupError):
                    for file in ("cmdline", "comm"):
                        shown = Path(f"/proc/{name}/{file}").read_bytes()
                        if self._needles.are_in(shown):
                            self.found.append(shown.decode(errors="replace"))
            for pid in set(find_processes(self._uids)) - self.attempted:
                self.attempted.add(pid)
                if read_as_nobody(Path(f"/proc/{pid}/environ")):
                    self.readable.append(pid)


def read_as_nobody(path: Path) -> bytes:
    """Return the contents of a file as read by the user `nobody`; empty if it may not read the file."""
    done = subprocess.run(
        ["cat", str(path)], user=_NOBODY, group=_NOBODY, extra_groups=[], capture_output=True, cwd="/"
    )
    return done.stdout


def find_files_with(
    needles: Needles, folder: Path, since: float = 0, without: Collection[Path] = ()
) -> list[Path]:
    """Return files below the folder, changed after `since`, that contain a secret; `without` are folders to skip."""
    return [path for path in _files(folder, without) if _has_secret(path, needles, since)]


def _files(folder: Path, without: Collection[Path]) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if Path(parent, name) not in without]
        yield from (Path(parent, name) for name in names)


def _has_secret(path: Path, needles: Needles, since: float) -> bool:
    with suppress(OSError):
        facts = path.lstat()
        if stat.S_ISREG(facts.st_mode) and facts.st_mtime >= since and facts.st_size <= _LARGEST:
            return needles.are_in(path.read_bytes())
    return False


def is_open_to_others(path: Path, root: Path) -> bool:
    """Return whether another user than the owner could read the file if that user could enter `root`."""
    if not path.stat().st_mode & 0o044:
        return False
    between = [parent for parent in path.parents if parent.is_relative_to(root) and parent != root]
    return all(parent.stat().st_mode & 0o011 for parent in between)
