"""Both sources report listeners in the same way."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from deployer.listeners.sources import ListenerSource, ProcNet, SocketDiagnostics

MORE_THAN_ONE_REPLY = 700


@pytest.fixture(params=[SocketDiagnostics, ProcNet])
def source(request: pytest.FixtureRequest) -> Iterator[ListenerSource]:
    made: ListenerSource = request.param()
    yield made
    made.close()


def _listen(exits: ExitStack, address: str, port: int = 0, *, shares: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = exits.enter_context(socket.socket(family))
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shares)
    made.bind((address, port))
    made.listen()
    return made


def _inode(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_the_listener_of_a_port_is_found_with_its_user_and_inode(
    source: ListenerSource, address: str
) -> None:
    with ExitStack() as exits:
        listener = _listen(exits, address)
        port = listener.getsockname()[1]
        found = source.find(port)
        assert found is not None
        assert found[:2] == (port, address)
        assert (found.uid, found.inode) == (os.geteuid(), _inode(listener))
        with socket.create_connection(("127.0.0.1", port)):
            # A connection is not taken for its listener.
            assert source.find(port) == found
        assert source.find_all(port) == [found]
    assert source.find(port) is None
    assert source.find_all(port) == []


def test_the_more_specific_listener_is_found(source: ListenerSource) -> None:
    """The kernel prefers the more specific listener too."""
    with ExitStack() as exits:
        wide = _listen(exits, "0.0.0.0", shares=True)
        port = wide.getsockname()[1]
        narrow = _listen(exits, "127.0.0.1", port, shares=True)
        _listen(exits, "127.0.0.2", port, shares=True)
        found = source.find(port)
        assert found is not None and found.inode == _inode(narrow)
        assert len(source.find_all(port, 2)) == 2
        # An unread rest of a dump does not affect later lookups.
        assert len(source.find_all(port)) == 3


def test_an_ipv6_listener_is_not_found(source: ListenerSource) -> None:
    with ExitStack() as exits:
        port = _listen(exits, "::1").getsockname()[1]
        assert source.find(port) is None
        assert [each.address for each in source.find_all(port)] == ["::1"]


def test_many_listeners_are_all_reported(source: ListenerSource) -> None:
    with ExitStack() as exits:
        inodes = {_inode(_listen(exits, "127.0.0.1")) for _ in range(MORE_THAN_ONE_REPLY)}
        last = _listen(exits, "127.0.0.1")
        assert inodes <= {each.inode for each in source.find_all()}
        found = source.find(last.getsockname()[1])
        assert found is not None and found.inode == _inode(last)
