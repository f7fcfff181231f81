"""Gives a command pseudo-terminals of its own. Standard library only.

The machine has 4,096 of them, and two processes that may open 4,096 files each could take all.
"""

from __future__ import annotations

import grp
import os

from deployer.processes.kernel_calls import BIND, NOEXEC, NOSUID, mount

_FOLDER = "/dev/pts"
_OPENER = "/dev/ptmx"
_OPTIONS = "newinstance,ptmxmode=0666,mode=620,max=256"


def furnish_terminals() -> None:
    """Mount a folder of at most 256 on /dev/pts. Where the kernel refuses, those of the machine stay."""
    if not os.path.isdir(_FOLDER):
        return
    for options in (_OPTIONS + _group(), _OPTIONS):
        try:
            mount("pharos", _FOLDER, "devpts", NOSUID | NOEXEC, options)
        except OSError:
            continue
        break
    else:
        return
    try:
        # Also where it is no link, and the kernel is too old to look beside it.
        mount(f"{_FOLDER}/ptmx", _OPENER, None, BIND)
    except OSError:
        return


def _group() -> str:
    """C libraries before 2.33 want terminals to be this group's; a user namespace does not know it."""
    try:
        return f",gid={grp.getgrnam('tty').gr_gid}"
    except KeyError:
        return ""
