"""The socket that a process listens on."""

import socket


class PortInUse(Exception):
    """Something else listens on the address."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket, not yet listening. `shared`: other processes of ours may bind the same port, and the system
    spreads connections over those that listen. Raises `PortInUse`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        raise PortInUse(f"{host}:{port} cannot be used ({error.strerror}). Choose another --port.") from None
    return server
