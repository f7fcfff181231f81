"""The ports of processes."""

import socket
import threading

import pytest

from deployer.drivers.local import ports as ports_module
from deployer.drivers.local.ports import NoPort, Ports
from tests.support.engines import free_port

GIVEN = 200


def test_no_port_is_given_twice() -> None:
    ports = Ports()
    given = [ports.give(set()) for _ in range(GIVEN)]
    assert len(set(given)) == GIVEN


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::"])
def test_a_bound_port_is_not_given(address: str, listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if the program has set SO_REUSEADDR and does not listen yet."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    port = free_port()
    monkeypatch.setattr(ports_module, "_RANGE", range(port, port + 1))
    with socket.socket(family) as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((address, port))
        if listens:
            squatter.listen()
        ports = Ports()
        with pytest.raises(NoPort, match="is free"):
            ports.give(set())
        assert ports._scan is not None
        # The test must not bind the port itself.
        ports._scan._thread.join()
    assert Ports().give(set()) == port


def test_ports_in_use_and_of_a_former_deployer_process_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_module, "_is_free", lambda _: True)
    monkeypatch.setattr(ports_module, "_RANGE", range(20_000, 20_003))
    ports = Ports()
    ports.avoid(20_000)
    assert ports.give({20_001}) == 20_002
    # No other port is free.
    assert ports.give({20_001, 20_002}) == 20_000
    with pytest.raises(NoPort):
        ports.give({20_000, 20_001, 20_002})


def test_a_start_tries_few_ports_and_a_thread_tries_all(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, tried, free = threading.get_ident(), [], set[int]()

    def is_free(port: int) -> bool:
        if threading.get_ident() == caller:
            tried.append(port)
        return port in free

    monkeypatch.setattr(ports_module, "_is_free", is_free)
    monkeypatch.setattr(ports_module, "_TRIES", 1)
    ports = Ports()
    for _ in range(10):
        with pytest.raises(NoPort):
            ports.give(set())
    assert len(tried) == 10
    assert ports._scan is not None
    ports._scan._thread.join()
    # The next scan finds the free port.
    monkeypatch.setattr(ports_module, "_SCAN_SECONDS", 0)
    free.add(20_000)
    ports._scanned(set())
    ports._scan._thread.join()
    assert ports.give(set()) == 20_000
