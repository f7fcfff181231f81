"""Removes trees that other users can still write."""

import os
import stat
from pathlib import Path

from deployer.trees.walk_tree import open_folder, walk_tree


def remove_tree(path: Path) -> None:
    """Remove a tree, a file or a link; do nothing if `path` does not exist. Blocking. Raises OSError."""
    try:
        parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        remove_entry(parent, path.name)
    finally:
        os.close(parent)


def remove_entry(parent: int, name: str) -> None:
    """Do the same as `remove_tree`, for an entry of the folder with the descriptor `parent`."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    top = open_folder(name, parent)
    try:
        for visit in walk_tree(top, is_emptied=True):
            if visit.kind == "leave":
                os.rmdir(visit.name, dir_fd=visit.parent)
            elif visit.kind != "enter":
                os.unlink(visit.name, dir_fd=visit.parent)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)
