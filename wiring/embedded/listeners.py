"""The ports of `pharos up`, bound before anything else is started."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from ingest_edge.listening import PortInUse, bind

APPS_PORT_OFFSET = 90
"""The default port of applications is that of the API and this."""
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Listeners:
    """Bound sockets that do not listen yet: `main` serves the API, `apps` the deployed applications."""

    main: socket.socket
    apps: socket.socket


@contextlib.contextmanager
def bound_listeners(host: str, port: int, apps_port: int | None) -> Iterator[Listeners]:
    """Bind both ports, and close them at the end. Port 0 takes a free one. `apps_port` defaults to `port` + 90. Raises
    `PortInUse`, whose message names the option to change."""
    if apps_port is None:
        apps_port = port + APPS_PORT_OFFSET if port else 0
        if port <= _MAX_PORT < apps_port:
            raise PortInUse(
                f"Port {apps_port} for applications (--port and {APPS_PORT_OFFSET}) is above {_MAX_PORT}. "
                "Choose one with --apps-port."
            )
    if port and port == apps_port:
        raise PortInUse(f"--port and --apps-port are both {port}. Choose another --apps-port.")
    with (
        contextlib.closing(bind(host, port)) as main,
        contextlib.closing(bind(host, apps_port, option="--apps-port")) as apps,
    ):
        yield Listeners(main, apps)


def listen(server: socket.socket, option: str, backlog: int) -> None:
    """Start to listen. Raises `PortInUse` if another process began to listen on the port since it was bound: uvloop
    would ignore this."""
    try:
        server.listen(backlog)
    except OSError as error:
        host, port = server.getsockname()[:2]
        reason = error.strerror or str(error)
        raise PortInUse(
            f"{host}:{port} cannot be used ({reason}). Choose another {option}.", reason
        ) from None
