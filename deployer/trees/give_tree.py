"""Gives a tree to another user."""

import os
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.trees.walk_tree import open_folder, walk_tree


def give_tree(folder: Path, owner: Owner) -> None:
    """Change the owner of all entries of the folder, and of the folder last. Blocking. Raises OSError.

    The owner cannot open the folder until the end, and so cannot redirect the walk with a link.
    """
    outer = os.open(folder.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        top = open_folder(folder.name, outer)
    finally:
        os.close(outer)
    try:
        for visit in walk_tree(top, is_emptied=False):
            if visit.kind != "enter":
                os.chown(visit.name, owner.uid, owner.gid, dir_fd=visit.parent, follow_symlinks=False)
        os.fchown(top, owner.uid, owner.gid)
    finally:
        os.close(top)
