"""Hides sockets and disks that the operator's groups can open from commands. Standard library only.

An ordinary user cannot drop groups: the kernel denies `setgroups` in the user namespace. If the operator is in the
group `docker`, a command could therefore become root through /run/docker.sock.
"""

from __future__ import annotations

import os
import stat

from deployer.processes.kernel_calls import BIND, NODEV, NOSUID, RDONLY, REC, mount, set_mount_attributes

_RUN_FOLDERS = ("/run", "/var/run")
_RESOLVER = "/etc/resolv.conf"
_MAX_LINKS = 10
# PATH leads through this link on NixOS.
_SYSTEM = "current-system"


def cover_run_folders() -> None:
    """Mount an empty read-only folder on /run, except for the resolver's configuration. Raises OSError.

    The mount hides the whole folder instead of single sockets, since services create new ones when they restart.
    """
    for folder in sorted({os.path.realpath(path) for path in _RUN_FOLDERS if os.path.isdir(path)}):
        _cover(folder)


def cover_disks() -> None:
    """Mount /dev/null on the block devices that the operator's groups, such as `disk`, can open. Raises OSError."""
    with os.scandir("/dev") as found:
        paths = [
            each.path
            for each in found
            if stat.S_ISBLK(each.stat(follow_symlinks=False).st_mode)
            and (os.access(each.path, os.R_OK) or os.access(each.path, os.W_OK))
        ]
    for path in paths:
        mount("/dev/null", path, None, BIND)


def _cover(folder: str) -> None:
    kept = {path: source for path in _find_resolver_paths(folder) if (source := _open(path)) is not None}
    system = os.path.join(folder, _SYSTEM)
    link = os.readlink(system) if os.path.islink(system) else None
    mount("pharos", folder, "tmpfs", NOSUID | NODEV, "size=64k,mode=755")
    if link is not None:
        os.symlink(link, system)
    for path, source in kept.items():
        if stat.S_ISDIR(os.fstat(source).st_mode):
            os.makedirs(path, exist_ok=True)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{source}", path, None, BIND | REC)
        os.close(source)
    set_mount_attributes(folder, RDONLY | NOSUID | NODEV, 0)


def _find_resolver_paths(folder: str) -> list[str]:
    """Return the paths within the folder that /etc/resolv.conf needs: the parents of its target and of the links to the
    target, in which a replaced file becomes visible, or the target itself if it is directly in the folder."""
    found: set[str] = set()
    path = _RESOLVER
    for _ in range(_MAX_LINKS):
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        parent = os.path.realpath(os.path.dirname(path))
        path = os.path.join(parent, os.path.basename(path))
        if parent == folder:
            found.add(os.path.realpath(path))
        elif parent.startswith(f"{folder}/"):
            found.add(parent)
    # Sort the paths, so that parents come before their contents.
    return sorted(each for each in found if each.startswith(f"{folder}/"))


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_PATH)
    except OSError:
        return None
