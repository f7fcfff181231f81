"""Bind the sockets that a process listens on."""

import errno
import socket

_METRICS_PORT_OFFSET = 100


class PortInUse(Exception):
    """The address cannot be bound: another process uses it, or this machine does not have it."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


def bind(host: str, port: int, *, shared: bool = False, option: str = "--port") -> socket.socket:
    """Return a bound socket that does not listen yet. Raises `PortInUse`.

    `shared`: other processes of Pharos may bind the same port, and the system distributes connections among those that
    listen. `option` is the command-line option of the port, for the error message.
    """
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
    """Return host:port of the metrics of a process that listens on `own_port`.

    `listen` is `PHAROS_METRICS_LISTEN`; its port 0 means any free port. `index` is the number of the process among
    those that share `own_port`.
    """
    if listen is None:
        above = own_port + _METRICS_PORT_OFFSET
        host, port = "127.0.0.1", above if above < 2**16 - 1000 else own_port - _METRICS_PORT_OFFSET
    else:
        host, _, text = listen.rpartition(":")
        port = int(text)
    return f"{host}:{port + index if port else 0}"
