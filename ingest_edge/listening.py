"""The sockets that a process listens on."""

import errno
import socket

_METRICS_BEHIND = 100


class PortInUse(Exception):
    """The address cannot be listened on: something else does, or it is not this machine's."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


def bind(host: str, port: int, *, shared: bool = False, option: str = "--port") -> socket.socket:
    """A bound socket, not yet listening. `shared`: other processes of ours may bind the same port, and the system
    spreads connections over those that listen. `option` sets the port, for the message. Raises `PortInUse`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        server.bind((host, port))
    except OverflowError:
        server.close()
        reason = "a port is 0 to 65535"
        raise PortInUse(
            f"{host}:{port} cannot be used ({reason}). Choose another {option}.", reason
        ) from None
    except (OSError, UnicodeError) as error:
        server.close()
        is_host = not isinstance(error, OSError) or isinstance(error, socket.gaierror)
        is_host = is_host or error.errno == errno.EADDRNOTAVAIL  # type: ignore[union-attr]
        reason = getattr(error, "strerror", None) or str(error)
        advice = f"Choose another {'--host' if is_host else option}."
        raise PortInUse(f"{host}:{port} cannot be used ({reason}). {advice}", reason) from None
    return server


def metrics_address(listen: str | None, own_port: int, index: int = 0) -> str:
    """host:port of the metrics of a process that listens on `own_port`; `index` is its number among those that share
    that port. `listen` is `PHAROS_METRICS_LISTEN`; port 0 stays 0, which takes any free one."""
    if listen is None:
        behind = own_port + _METRICS_BEHIND
        host, port = "127.0.0.1", behind if behind < 2**16 - 1000 else own_port - _METRICS_BEHIND
    else:
        host, _, text = listen.rpartition(":")
        port = int(text)
    return f"{host}:{port + index if port else 0}"
