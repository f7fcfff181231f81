"""Gives a tree to another user."""

import os
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.trees.walk_tree import open_top, walk_tree


def give_tree(folder: Path, owner: Owner) -> None:
    """Change the owner of all entries of the folder, and of the folder last. Blocking. Raises OSError.

    The owner cannot open the folder until the end, and so cannot redirect the walk with a link.
    """
    top = open_top(folder)
    try:
        for visit in walk_tree(top, is_emptied=False):
            if visit.kind != "enter":
                os.chown(visit.name, owner.uid, owner.gid, dir_fd=visit.parent, follow_symlinks=False)
        os.fchown(top, owner.uid, owner.gid)
    finally:
        os.close(top)
