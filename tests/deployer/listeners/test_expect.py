"""`expect` assigns a port to an instance, and `find_user` returns the user of its listener."""

import pytest

from deployer.listeners.owners import ExpectedInstance, ListenerOwners
from deployer.listeners.sources import Listener
from tests.support.engines import free_port


class _Source:
    """A source without a listener, or with a failing lookup."""

    def __init__(self, found: Listener | None = None, fails: bool = False) -> None:
        self._found, self._fails = found, fails

    def find(self, port: int) -> Listener | None:
        if self._fails:
            raise OSError
        return self._found

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        return [] if self._found is None else [self._found]

    def close(self) -> None: ...


async def test_a_port_is_not_taken_from_a_running_process_of_another_environment(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owners = ListenerOwners(_Source(), has_own_users=True)
    port = free_port()
    leaders: dict[int, int | None] = {7: 1234, 8: 5678}
    seven, eight = (
        ExpectedInstance(
            100 + number, f"dpl_x/{number}/1/web/1/{port}", lambda number=number: leaders[number], number
        )
        for number in (7, 8)
    )
    try:
        owners.expect(port, seven)
        owners.expect(port, eight)
        assert f"{eight.mark} does not get port {port}, which {seven.mark} has" in caplog.text
        # The first instance still has the port. Once its process has ended, another one may get the port.
        owners.forget(port, eight.mark)
        owners.expect(port, eight)
        assert caplog.text.count("does not get") == 2
        leaders[7] = None
        owners.expect(port, eight)
        owners.expect(port, seven)
        assert caplog.text.count("does not get") == 3
        assert f"{seven.mark} does not get port {port}, which {eight.mark} has" in caplog.text
    finally:
        owners.close()


def test_find_user_returns_the_user_of_the_listener() -> None:
    listener = Listener(port=21_007, address="127.0.0.1", cookie=1, uid=107, inode=1)
    assert ListenerOwners(_Source(listener), has_own_users=True).find_user(21_007) == 107
    assert ListenerOwners(_Source(), has_own_users=True).find_user(21_007) is None
    assert ListenerOwners(_Source(fails=True), has_own_users=True).find_user(21_007) is None
    assert ListenerOwners(None, has_own_users=True).find_user(21_007) is None
