"""Finds out how this machine tells who listens on a port."""

import logging
import os
import socket
from collections.abc import Callable

from deployer.listeners.interface import LOOPBACK, ListenerSource
from deployer.listeners.proc_net import ProcNet
from deployer.listeners.socket_diagnostics import SocketDiagnostics

logger = logging.getLogger(__name__)


def find_source() -> ListenerSource | None:
    """Return the first source that finds a listener of our own."""
    sources: tuple[Callable[[], ListenerSource], ...] = (SocketDiagnostics, ProcNet)
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        probe.listen()
        port, inode = probe.getsockname()[1], os.fstat(probe.fileno()).st_ino
        for make in sources:
            try:
                source = make()
                found = source.find(port)
            except (OSError, ValueError, IndexError) as error:
                logger.debug("%s cannot be used: %s", make.__name__, error)
                continue
            if found is not None and found.inode == inode and found.uid == os.geteuid():
                return source
            source.close()
    logger.warning(
        "cannot find out which process owns a listening port: an application may answer for one that has crashed"
    )
    return None
