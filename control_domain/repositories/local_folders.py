"""The folders on the deployer's machine that may be connected as repositories.

The deployer reads these folders with its own rights. Somebody who could connect any folder could therefore read the
code of all accounts whose repositories or check-outs are on the machine.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

_SEPARATOR = ","


@dataclass(frozen=True, slots=True)
class LocalFolders:
    """The folders whose repositories may be connected by their paths."""

    folders: tuple[PurePosixPath, ...] | None
    """None allows every folder."""

    def allow(self, url: str) -> bool:
        """Return True for a URL of another machine, and for a folder below one of these. `url` is a result of
        `read_url`."""
        path = _path_of(url)
        if path is None or self.folders is None:
            return True
        # Symbolic links are not resolved: every user who can write to an allowed folder is trusted.
        return ".." not in path.parts and any(path.is_relative_to(folder) for folder in self.folders)


NO_FOLDERS = LocalFolders(())
ANY_FOLDER = LocalFolders(None)


def parse_local_folders(text: str) -> LocalFolders:
    """Parse absolute paths with commas between them. Raises `ValueError` for a path that is not absolute."""
    paths = [PurePosixPath(part.strip()) for part in text.split(_SEPARATOR) if part.strip()]
    for path in paths:
        if not path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{path} is not an absolute path")
    return LocalFolders(tuple(paths))


def _path_of(url: str) -> PurePosixPath | None:
    """Return the path that Git opens; None for a URL of another machine."""
    if url.startswith("/"):
        return PurePosixPath(url)
    if url.startswith("file:"):
        # Git decodes the path of a URL.
        return PurePosixPath(unquote(urlsplit(url).path))
    return None
