"""Refuses work trees with symbolic links out of the tree, or with special files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from deployer.checkout.failures import CheckOutFailed, shorten
from deployer.checkout.fetch_revision import MAX_FILES, too_many_files

# The limit of Linux (path_resolution(7)): a path that leads through more symbolic links cannot be opened.
_MAX_LINKS_OF_A_PATH = 40
_MAX_STEPS = 5_000_000


def inspect_tree(folder: Path) -> None:
    """Raise `CheckOutFailed`, which names the path, for a symbolic link that leads out of the folder, directly or
    through other links, for a special file (pipe, socket, device), and for too many files.

    Blocking: run it in a thread. The walk follows no link, and skips the repository's own `.git`.
    """
    links: dict[str, str] = {}
    for count, (path, entry) in enumerate(_walk(folder), 1):
        if count > MAX_FILES:
            raise too_many_files()
        if entry.is_symlink():
            links[path] = os.readlink(entry.path)
        elif not entry.is_file(follow_symlinks=False):
            raise CheckOutFailed(f"{shorten(path)!r} is neither a file nor a folder. Remove it.")
    _check_links(links)


def _walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all entries except folders, with their paths relative to the folder."""
    waiting = [""]
    while waiting:
        within = waiting.pop()
        try:
            with os.scandir(folder / within) as entries:
                for entry in entries:
                    path = f"{within}{entry.name}"
                    if not entry.is_dir(follow_symlinks=False):
                        yield path, entry
                    elif path != ".git":
                        waiting.append(f"{path}/")
        except OSError as error:
            raise CheckOutFailed(
                f"{shorten(within)!r} cannot be listed: {error.strerror}. Remove it."
            ) from error


def _check_links(links: Mapping[str, str]) -> None:
    steps = 0
    for path in links:
        for count in _follow_link(path, links):
            steps += count
            if steps > _MAX_STEPS:
                raise CheckOutFailed(
                    "The repository has more symbolic links than can be followed. Remove some."
                )


def _follow_link(path: str, links: Mapping[str, str]) -> Iterator[int]:
    """Resolve the link. Before resolving each further link on the way, yield the number of its path components.

    A missing path counts as a folder, since a build may create it. Raises `CheckOutFailed` if the link leads out of
    the folder.
    """
    *resolved, name = path.split("/")
    remaining = [name]
    links_followed = 0
    while remaining:
        match remaining.pop():
            case "" | ".":
                continue
            case "..":
                if not resolved:
                    raise _link_leads_out(path, links[path])
                resolved.pop()
                continue
            case name:
                resolved.append(name)
        target = links.get("/".join(resolved))
        if target is None:
            continue
        links_followed += 1
        if links_followed > _MAX_LINKS_OF_A_PATH:
            return
        if target.startswith("/"):
            raise _link_leads_out(path, links[path])
        resolved.pop()
        components = target.split("/")
        yield len(components)
        remaining += reversed(components)


def _link_leads_out(path: str, target: str) -> CheckOutFailed:
    return CheckOutFailed(
        f"The symbolic link {shorten(path)!r} leads out of the repository, to {shorten(target)!r}. Remove it, or have "
        "it lead to a file of the repository."
    )
