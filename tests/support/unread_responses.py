"""Callers that send requests and read no response."""

import contextlib
import socket
from collections.abc import Iterator

_BUFFER_BYTES = 4096


def listen_with_small_buffers() -> socket.socket:
    """Return a listening loopback socket with small send buffers, so that responses wait in the process."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


@contextlib.contextmanager
def callers_that_never_read(port: int, sent: bytes, count: int = 1) -> Iterator[list[socket.socket]]:
    """Yield `count` connections that have sent `sent` and read nothing."""
    with contextlib.ExitStack() as stack:
        callers = []
        for _ in range(count):
            caller = stack.enter_context(socket.socket())
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            caller.connect(("127.0.0.1", port))
            caller.sendall(sent)
            callers.append(caller)
        yield callers
