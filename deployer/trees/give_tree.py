"""Gives a tree to another user."""

import os
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.trees.walk_tree import open_folder, walk_tree


def give_tree(folder: Path, owner: Owner) -> None:
    """Make all in the folder, and at last the folder, the owner's. Blocking. Raises OSError.

    Until then the folder is closed to the owner, who can put no link into the way.
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
