"""`ListenerOwners` trusts only listeners of the instance that the port was assigned to."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.listeners import open_sockets
from deployer.listeners import owners as owners_module
from deployer.listeners.open_sockets import OpenSockets, _read_socket_inodes, read_open_sockets
from deployer.listeners.owners import ExpectedInstance, ListenerOwners, Verdict
from deployer.listeners.sources import Listener, ListenerSource, ProcNet, SocketDiagnostics
from deployer.listeners.throttle import ExaminationThrottle
from deployer.processes.process_table import Process, read_processes
from deployer.traffic.interface import Target
from deployer.traffic.proxy.upstream import UpstreamRefused, open_upstream
from tests.deployer.processes.sandbox import PYTHON, Sandbox, make_sandbox, wait_until
from tests.support.engines import free_port

LISTEN = """exec {python} -c '
import os, socket, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", {port}))
listener.listen()
{more}
time.sleep(1000)
'"""
WORKER = "child = os.fork()\nif child == 0: listener.detach(); time.sleep(1000)\nlistener.close()"
"""The started process closes the listener; its child keeps the listener open."""
FORGE = """os.set_inheritable(listener.fileno(), True)
variables = {{"PHAROS_INSTANCE": "{mark}"}}
os.execve("{python}", ["python", "-c", "import time; time.sleep(1000)"], variables)"""
"""Executes a program with another instance's mark in its environment."""


@pytest.fixture
def source() -> Iterator[ListenerSource]:
    made = SocketDiagnostics()
    yield made
    made.close()


@pytest.fixture
async def neighbours(tmp_path: Path) -> AsyncIterator[tuple[Sandbox, Sandbox]]:
    """Return places for two applications with the same user, as if Pharos were not root."""
    first, second = make_sandbox(tmp_path / "a"), make_sandbox(tmp_path / "b")
    owner = first.confinement.owner
    for folder in (second.confinement.folder, second.confinement.home):
        if owner is not None:
            os.chown(folder, owner.uid, owner.gid)
    second.confinement = replace(second.confinement, owner=owner)
    yield first, second


class Running:
    """A listening process, and the instance that its port is assigned to."""

    def __init__(
        self, sandbox: Sandbox, port: int, source: ListenerSource, null_output: int, more: str = ""
    ) -> None:
        self.process = sandbox.start(LISTEN.format(python=PYTHON, port=port, more=more), null_output)
        owner = sandbox.confinement.owner
        uid = os.geteuid() if owner is None else owner.uid
        self.expected = ExpectedInstance(uid, sandbox.mark, lambda: self.process.pid)
        self._source, self._port = source, port

    async def listens(self, count: int = 1) -> None:
        # Earlier, the PID is that of the launcher.
        await self.process.wait_started()
        await wait_until(lambda: len(self._source.find_all(self._port)) == count)


def _owners(source: ListenerSource | None, *, has_own_users: bool = True) -> ListenerOwners:
    return ListenerOwners(source, has_own_users=has_own_users)


async def _is_owned(owners: ListenerOwners, port: int) -> bool:
    """Return whether a connection after an examination is trusted."""
    await owners.examine(port)
    return owners.is_owned(port, owners.verified_cookies(port))


@pytest.mark.parametrize("more", ["", WORKER])
@pytest.mark.parametrize("kind", [SocketDiagnostics, ProcNet])
async def test_the_instances_own_listener_is_trusted(
    kind: type[ListenerSource], more: str, sandbox: Sandbox, null_output: int
) -> None:
    source, port = kind(), free_port()
    owners = _owners(source)
    running = Running(sandbox, port, source, null_output, more)
    try:
        owners.expect(port, running.expected)
        assert await owners.examine(port) is Verdict.NOBODY
        await running.listens()
        # Not before the examination: another program may have listened when the connection was made.
        assert not owners.is_owned(port, owners.verified_cookies(port))
        assert await owners.examine(port) is Verdict.OWN
        assert owners.is_owned(port, owners.verified_cookies(port))
        assert not owners.is_owned(port, frozenset())
        assert [each.port for each in await owners.list_listeners(port)] == [port]
        # Expect the same instance again, as a deployer does that adopts a process.
        owners.expect(port, running.expected)
        assert owners.is_owned(port, owners.verified_cookies(port))
        owners.forget(port, "another mark")
        assert owners.is_owned(port, owners.verified_cookies(port))
        owners.forget(port, running.expected.mark)
        assert not owners.is_owned(port, owners.verified_cookies(port))
        assert await owners.examine(port) is Verdict.FOREIGN
    finally:
        await running.process.end(0)
        owners.close()


async def test_a_listener_handed_to_a_new_process_during_the_examination_is_trusted(
    source: ListenerSource, sandbox: Sandbox, null_output: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes were listed before the fork; the descriptors were read after the parent had closed its own."""
    port = free_port()
    owners = _owners(source)
    running = Running(sandbox, port, source, null_output, WORKER)
    lists: list[int] = []

    def list_without_the_worker_at_first() -> list[Process]:
        processes = read_processes()
        lists.append(len(processes))
        workers = [each for each in processes if each.parent == running.process.pid]
        return [each for each in processes if each not in workers] if len(lists) == 1 else processes

    try:
        owners.expect(port, running.expected)
        await running.listens()
        pid = running.process.pid
        await wait_until(lambda: pid is not None and not _read_socket_inodes(pid))
        monkeypatch.setattr(open_sockets, "read_processes", list_without_the_worker_at_first)
        assert await owners.examine(port) is Verdict.OWN
        assert len(lists) == 2
    finally:
        await running.process.end(0)
        owners.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
async def test_another_users_listener_is_refused(
    source: ListenerSource, tmp_path: Path, null_output: int
) -> None:
    mine, other = make_sandbox(tmp_path / "a"), make_sandbox(tmp_path / "b")
    port = free_port()
    owners = _owners(source)
    expected = Running(mine, free_port(), source, null_output)
    squatter = Running(other, port, source, null_output)
    try:
        owners.expect(port, expected.expected)
        await squatter.listens()
        assert await owners.examine(port) is Verdict.FOREIGN
        assert not await _is_owned(owners, port)
        with pytest.raises(UpstreamRefused):
            await open_upstream(Target(port), owners)
    finally:
        await squatter.process.end(0)
        await expected.process.end(0)


@pytest.mark.parametrize("forged", [False, True])
async def test_a_listener_of_a_neighbour_with_the_same_user_is_refused(
    forged: bool, source: ListenerSource, neighbours: tuple[Sandbox, Sandbox], null_output: int
) -> None:
    """`forged`: the neighbour writes the instance's mark into its own environment."""
    mine, other = neighbours
    port = free_port()
    owners = _owners(source, has_own_users=False)
    expected = Running(mine, free_port(), source, null_output)
    become = FORGE.format(python=PYTHON, mark=mine.mark) if forged else ""
    squatter = Running(other, port, source, null_output, become)
    try:
        owners.expect(port, expected.expected)
        await squatter.listens()
        assert await owners.examine(port) is Verdict.FOREIGN
        owners.expect(port, squatter.expected)
        assert await owners.examine(port) is Verdict.OWN
    finally:
        await squatter.process.end(0)
        await expected.process.end(0)


async def test_a_neighbour_that_joins_the_port_is_noticed(
    source: ListenerSource, neighbours: tuple[Sandbox, Sandbox], null_output: int
) -> None:
    """SO_REUSEPORT lets sockets of one user share a port; the kernel gives each some of the connections."""
    mine, other = neighbours
    port = free_port()
    owners = _owners(source, has_own_users=False)
    instance = Running(mine, port, source, null_output)
    try:
        owners.expect(port, instance.expected)
        await instance.listens()
        assert await _is_owned(owners, port)
        joining = Running(other, port, source, null_output)
        try:
            await joining.listens(2)
            assert not await _is_owned(owners, port)
        finally:
            await joining.process.end(0)
        assert await _is_owned(owners, port)
    finally:
        await instance.process.end(0)


class FakeSource:
    """Reports the listener that the test sets."""

    def __init__(self) -> None:
        self.found: Listener | None = Listener(20_000, "127.0.0.1", 7, 1000, 70)
        self.fault: OSError | None = None

    def find(self, port: int) -> Listener | None:
        if self.fault is not None:
            raise self.fault
        return self.found

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        return [] if self.found is None else [self.found]

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("uid", "sockets", "verdict"),
    [
        (1000, OpenSockets(frozenset({70}), frozenset(), True), Verdict.OWN),
        (1000, OpenSockets(frozenset({70}), frozenset(), False), Verdict.OWN),
        # If descriptors cannot be read, the user alone decides.
        (1000, OpenSockets(frozenset(), frozenset(), False), Verdict.OWN),
        (1001, OpenSockets(frozenset(), frozenset(), False), Verdict.FOREIGN),
        # A process of the same environment, but of another instance.
        (1000, OpenSockets(frozenset({71}), frozenset({70}), False), Verdict.FOREIGN),
        (1000, OpenSockets(frozenset({71}), frozenset(), True), Verdict.FOREIGN),
    ],
)
async def test_verdicts(
    uid: int, sockets: OpenSockets, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners_module, "read_open_sockets", lambda *_: sockets)
    owners = _owners(FakeSource())
    owners.expect(20_000, ExpectedInstance(uid, "mark", lambda: 1))
    assert await owners.examine(20_000) is verdict
    assert owners.is_owned(20_000, owners.verified_cookies(20_000)) is (verdict is Verdict.OWN)
    # An ended instance owns no further listeners.
    owners.expect(20_001, ExpectedInstance(uid, "mark", lambda: None))
    assert await owners.examine(20_001) is Verdict.FOREIGN


@pytest.mark.parametrize(
    ("others_are_readable", "sockets", "verdict"),
    [
        (True, OpenSockets(frozenset({70}), frozenset(), False), Verdict.OWN),
        # A neighbour hides its descriptors; the instance does not.
        (True, OpenSockets(frozenset({71}), frozenset(), False), Verdict.FOREIGN),
        (True, OpenSockets(frozenset(), frozenset({70}), False, True), Verdict.FOREIGN),
        (True, OpenSockets(frozenset(), frozenset(), False, True), Verdict.UNREADABLE),
        # The machine lets no process read descriptors.
        (False, OpenSockets(frozenset(), frozenset(), False, True), Verdict.OWN),
    ],
)
async def test_verdicts_where_one_user_runs_all_applications(
    others_are_readable: bool, sockets: OpenSockets, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners_module, "read_open_sockets", lambda *_: sockets)
    monkeypatch.setattr(owners_module, "can_read_other_processes", lambda: others_are_readable)
    owners = _owners(FakeSource(), has_own_users=False)
    owners.expect(20_000, ExpectedInstance(1000, "mark", lambda: 1))
    assert await owners.examine(20_000) is verdict
    assert owners.is_owned(20_000, owners.verified_cookies(20_000)) is (verdict is Verdict.OWN)


async def test_a_lookup_that_fails_refuses_the_connection_and_closes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sockets = OpenSockets(frozenset({70}), frozenset(), True)
    monkeypatch.setattr(owners_module, "read_open_sockets", lambda *_: sockets)
    source = FakeSource()
    owners = _owners(source)
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        owners.expect(port, ExpectedInstance(1000, "mark", lambda: 1))
        assert await owners.examine(port) is Verdict.OWN
        source.fault = OSError(105, "No buffer space available")
        with pytest.raises(UpstreamRefused):
            await open_upstream(Target(port), owners)
        async with asyncio.timeout(60):
            await ended.wait()
        source.fault = None
        upstream = await open_upstream(Target(port), owners)
        upstream.abort()


async def test_without_any_source_every_listener_is_trusted() -> None:
    owners = _owners(None)
    assert owners.is_owned(20_000, frozenset())
    assert await owners.examine(20_000) is Verdict.OWN
    assert await owners.list_listeners(20_000) == []


async def test_an_environment_has_one_examination_at_a_time_and_does_not_delay_others() -> None:
    throttle, order = ExaminationThrottle(), []

    async def examine(environment: str, may_end: asyncio.Event) -> None:
        async with throttle.admit(environment):
            order.append(environment)
            await may_end.wait()

    may_end = asyncio.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(examine("attacker", may_end))
        await wait_until(lambda: order == ["attacker"])
        group.create_task(examine("neighbour", may_end))
        await wait_until(lambda: order == ["attacker", "neighbour"])
        may_end.set()
    assert order.count("attacker") == 6


async def test_a_costly_examination_is_followed_by_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle, pauses = ExaminationThrottle(), []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("deployer.listeners.throttle.asyncio.sleep", sleep)
    for cost in (1.0, 100.0, 0.0, 0.0):
        async with throttle.admit("environment") as usage:
            usage.cost_seconds = cost
    assert pauses == [0, pytest.approx(4, abs=1), pytest.approx(5, abs=1), 0]


class SharingSource(FakeSource):
    """Reports any number of listeners on the port."""

    def __init__(self, cookies: range) -> None:
        super().__init__()
        self.cookies = cookies
        self.dumps = 0

    def find(self, port: int) -> Listener | None:
        return self.find_all(port)[0]

    def find_all(self, port: int = 0, limit: int | None = None) -> list[Listener]:
        self.dumps += limit is not None
        return [Listener(20_000, "127.0.0.1", cookie, 1000, 70) for cookie in self.cookies[:limit]]


async def test_a_port_with_too_many_listeners_is_refused_without_looking_them_up_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sockets = OpenSockets(frozenset({70}), frozenset(), True)
    monkeypatch.setattr(owners_module, "read_open_sockets", lambda *_: sockets)
    monkeypatch.setattr(owners_module, "_FOREIGN_SECONDS", 1000)
    source = SharingSource(range(12_000))
    owners = _owners(source, has_own_users=False)
    owners.expect(20_000, ExpectedInstance(1000, "mark", lambda: 1))
    assert await owners.examine(20_000) is Verdict.FOREIGN
    assert not any(owners.is_owned(20_000, owners.verified_cookies(20_000)) for _ in range(100))
    assert source.dumps == 1
    assert caplog.text.count("more than 256 sockets listen on 127.0.0.1:20000") == 1


@pytest.mark.parametrize("has_own_users", [True, False])
async def test_sockets_that_were_closed_are_forgotten(
    has_own_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = OpenSockets(frozenset({70}), frozenset(), True)
    monkeypatch.setattr(owners_module, "read_open_sockets", lambda *_: sockets)
    source = SharingSource(range(1))
    owners = _owners(source, has_own_users=has_own_users)
    owners.expect(20_000, ExpectedInstance(1000, "mark", lambda: 1))
    for cookie in range(20):
        source.cookies = range(cookie, cookie + 2)
        assert await owners.examine(20_000) is Verdict.OWN
    assert owners.verified_cookies(20_000) <= {19, 20}


async def test_reading_stops_once_the_instance_is_known_to_have_the_socket(
    sandbox: Sandbox, null_output: int, source: ListenerSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    running = Running(sandbox, port, source, null_output)
    read: list[int] = []
    original = open_sockets._read_socket_inodes
    monkeypatch.setattr(open_sockets, "_read_socket_inodes", lambda pid: read.append(pid) or original(pid))
    try:
        await running.listens()
        found = source.find(port)
        assert found is not None
        needed = frozenset({found.inode})
        sockets = read_open_sockets(running.expected.uid, sandbox.mark, running.process.pid, needed)
        assert needed <= sockets.own
        assert read == [running.process.pid]
    finally:
        await running.process.end(0)
