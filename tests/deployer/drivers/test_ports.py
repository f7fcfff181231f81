"""Ports that are given to processes."""

import socket

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
def test_a_port_that_somebody_has_bound_is_not_given(
    address: str, listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with SO_REUSEADDR and without listening, to listen on it later."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    port = free_port()
    monkeypatch.setattr(ports_module, "_RANGE", range(port, port + 1))
    with socket.socket(family) as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((address, port))
        if listens:
            squatter.listen()
        with pytest.raises(NoPort, match="is free"):
            Ports().give(set())
    assert Ports().give(set()) == port


def test_ports_in_use_and_of_an_earlier_deployer_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports_module, "_RANGE", range(port, port + 1))
    with pytest.raises(NoPort):
        Ports().give({port})
    ports = Ports()
    ports.avoid(port)
    with pytest.raises(NoPort):
        ports.give(set())
