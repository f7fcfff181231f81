"""Looks a work tree over for what could lead a build, or who handles its result, out of it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from deployer.check_out.failures import CheckOutFailed, shorten
from deployer.check_out.fetch_revision import MOST_FILES, too_many_files

# As Linux (path_resolution(7)): a path that goes over more links leads nowhere.
_MOST_LINKS_OF_A_PATH = 40
_MOST_STEPS = 5_000_000


def inspect_tree(folder: Path) -> None:
    """Raises `CheckOutFailed`, which names the path, for a symbolic link that leads out of the folder, also over other
    links in it, for what is neither file, folder nor link, and for too many files.

    Blocking: run it in a thread. No link is followed. The repository's own `.git` is left out.
    """
    links: dict[str, str] = {}
    for number, (path, entry) in enumerate(_walk(folder), 1):
        if number > MOST_FILES:
            raise too_many_files()
        if entry.is_symlink():
            links[path] = os.readlink(entry.path)
        elif not entry.is_file(follow_symlinks=False):
            raise CheckOutFailed(f"{shorten(path)!r} is neither a file nor a folder. Remove it.")
    _check_links(links)


def _walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All but folders, with their paths in the folder."""
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
                f"{shorten(within)!r} cannot be looked into: {error.strerror}. Remove it."
            ) from error


def _check_links(links: Mapping[str, str]) -> None:
    steps = 0
    for path in links:
        for more in _follow(path, links):
            steps += more
            if steps > _MOST_STEPS:
                raise CheckOutFailed(
                    "The repository has more symbolic links than can be followed. Remove some."
                )


def _follow(path: str, links: Mapping[str, str]) -> Iterator[int]:
    """Goes where the link leads, and gives the steps of each link on the way before it takes them.

    What is not there yet counts as a folder: a build may make it. Raises `CheckOutFailed` where the way leads out.
    """
    *place, name = path.split("/")
    ahead = [name]
    followed = 0
    while ahead:
        match ahead.pop():
            case "" | ".":
                continue
            case "..":
                if not place:
                    raise _leads_out(path, links[path])
                place.pop()
                continue
            case name:
                place.append(name)
        target = links.get("/".join(place))
        if target is None:
            continue
        followed += 1
        if followed > _MOST_LINKS_OF_A_PATH:
            return
        if target.startswith("/"):
            raise _leads_out(path, links[path])
        place.pop()
        steps = target.split("/")
        yield len(steps)
        ahead += reversed(steps)


def _leads_out(path: str, target: str) -> CheckOutFailed:
    return CheckOutFailed(
        f"The symbolic link {shorten(path)!r} leads out of the repository, to {shorten(target)!r}. Remove it, or have "
        "it lead to a file of the repository."
    )
