"""The library's own log messages: at most one of each kind per minute, on the logger `pharos_client`."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Callable

LOGGER_NAME = "pharos_client"
logger = logging.getLogger(LOGGER_NAME)

_PAUSE_SECONDS = 60.0
_last: dict[str, float] = {}


def warn(kind: str, text: str) -> None:
    """Log a warning, unless one of this kind was logged within the last minute. Never raises."""
    # No lock: a repeated message does no harm, and a lock could be held during a fork.
    now = time.monotonic()
    if now - _last.get(kind, -_PAUSE_SECONDS) < _PAUSE_SECONDS:
        return
    _last[kind] = now
    # A handler of the application must not stop the sender.
    with contextlib.suppress(Exception):
        logger.warning("%s", text)


def start_thread(name: str, target: Callable[[], None], daemon: bool = True) -> threading.Thread | None:
    """Start a thread. Return None if the interpreter refuses one because it is ending."""
    thread = threading.Thread(target=target, name=name, daemon=daemon)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
