"""Errors of unusable ports of `pharos up`: the message names the option to change."""

import socket
from contextlib import ExitStack, closing

import pytest

from ingest_edge.listening import PortInUse, bind
from wiring.embedded.listeners import bound_listeners, listen

_TAKEN = "cannot be used (Address already in use). Choose another"


def _bind_error(host: str, port: int, apps_port: int | None) -> str:
    with pytest.raises(PortInUse) as fault, bound_listeners(host, port, apps_port):
        pass
    return str(fault.value)


def test_error_names_the_option_to_change() -> None:
    with ExitStack() as stack:
        taken = stack.enter_context(closing(bind("127.0.0.1", 0)))
        taken.listen()
        port = taken.getsockname()[1]
        assert _bind_error("127.0.0.1", port, 0) == f"127.0.0.1:{port} {_TAKEN} --port."
        assert _bind_error("127.0.0.1", 0, port) == f"127.0.0.1:{port} {_TAKEN} --apps-port."
    assert _bind_error("127.0.0.1", 18_000, 18_000) == (
        "--port and --apps-port are both 18000. Choose another --apps-port."
    )
    assert _bind_error("127.0.0.1", 65_500, None) == (
        "Port 65590 for applications (--port and 90) is above 65535. Choose one with --apps-port."
    )
    range_error = "cannot be used (a port is 0 to 65535). Choose another"
    assert _bind_error("127.0.0.1", 99_999, None) == f"127.0.0.1:99999 {range_error} --port."
    assert _bind_error("127.0.0.1", 0, 99_999) == f"127.0.0.1:99999 {range_error} --apps-port."
    assert _bind_error("127.0.0.1", -1, 0) == f"127.0.0.1:-1 {range_error} --port."
    for host in ("192.0.2.1", "no host", "x" * 70, "1:2"):
        assert _bind_error(host, 0, 0).endswith("Choose another --host.")


def test_sockets_are_closed_at_the_end_and_after_an_error() -> None:
    with bound_listeners("127.0.0.1", 0, None) as listeners:
        ports = [server.getsockname()[1] for server in (listeners.main, listeners.apps)]
    for port in ports:
        with closing(bind("127.0.0.1", port)) as server:
            server.listen()


def test_port_taken_between_bind_and_listen_is_reported() -> None:
    # Both processes may bind the port while neither listens.
    with closing(bind("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with closing(bind("127.0.0.1", port)) as other:
            other.listen()
            with pytest.raises(PortInUse) as fault:
                listen(one, "--apps-port", 5)
    assert str(fault.value) == f"127.0.0.1:{port} {_TAKEN} --apps-port."
    assert one.family is socket.AF_INET
