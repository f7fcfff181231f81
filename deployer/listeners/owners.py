"""Decides whether the socket that listens on an instance's port belongs to that instance."""

import asyncio
import enum
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from deployer.listeners.open_sockets import OpenSockets, can_read_other_processes, read_open_sockets
from deployer.listeners.sources import Listener, ListenerSource, find_source
from deployer.listeners.throttle import ExaminationThrottle, Usage
from deployer.processes.threads import run_in_pool

logger = logging.getLogger(__name__)

# Minimum time between two examinations of another program's listener: waiting requests retry up to 20 times a second.
_FOREIGN_SECONDS = 0.5
# Reading a user's many processes may take seconds. Each environment uses at most one of the threads at a time.
_THREADS = 4
# Maximum number of listeners on one port. A server with one listener per worker has fewer. Each request looks up all of
# them (2.6 µs each).
_MAX_LISTENERS = 256
# Maximum number of listeners on all ports together, for the hint that an instance listens on another port.
_MAX_LISTED = 4096


class Verdict(enum.Enum):
    """Says whose listener it is that listens on an instance's port."""

    OWN = enum.auto()
    FOREIGN = enum.auto()
    UNREADABLE = enum.auto()
    """It is unknown whose the listener is: one user runs all applications, and a process of the instance hides its
    descriptors. The listener may belong to the instance or to a neighbour. It is refused like FOREIGN."""
    NOBODY = enum.auto()


@dataclass(frozen=True, slots=True)
class ExpectedInstance:
    """The instance that a port was assigned to."""

    uid: int
    """The user that runs the instance."""
    mark: str
    leader: Callable[[], int | None]
    """A function that returns the pid of the process that the deployer started. None while there is no such process."""
    environment_id: int = 0
    """Identifies the environment, whose examinations are limited. 0: the user ID identifies the environment."""


@dataclass(slots=True)
class _Port:
    expected: ExpectedInstance
    known: frozenset[int] = frozenset()
    """The cookies of listeners that belong to the instance. The next examination drops the cookies of closed
    listeners."""
    foreign: dict[int, float] = field(default_factory=dict)
    """The cookies of other programs' listeners, and the time of each examination, in the loop's time."""
    crowded_until: float = 0.0
    """Look up no listeners before this time (in the loop's time), because there were too many."""
    examination: "asyncio.Task[Verdict] | None" = None


class ListenerOwners:
    """Verifies the listeners on the ports of all instances of this deployer. For one event loop.

    A listener is examined once; after that, its cookie is compared. Connect like this:

        known = owners.verified_cookies(port)  # Before connecting: a listener that appears later is not trusted.
        ...                                    # Connect.
        if not owners.is_owned(port, known): ...  # Abort the connection before sending a byte.
    """

    def __init__(self, source: ListenerSource | None, *, has_own_users: bool) -> None:
        """`source`: looks up listeners. None if this machine cannot look them up; every listener is then trusted.
        `has_own_users`: True if each environment runs as a user of its own."""
        self._source = source
        self._has_own_users = has_own_users
        # True if the user ID alone decides about listeners whose descriptors cannot be read. None if this is not known
        # yet.
        self._user_decides: bool | None = True if has_own_users else None
        self._ports: dict[int, _Port] = {}
        self._warned: set[object] = set()
        self._throttle = ExaminationThrottle()
        # Use a thread pool of its own: slow calls of others in the shared pool must not delay requests.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="listeners")

    @classmethod
    def of_this_machine(cls) -> "ListenerOwners":
        """Use sock_diag, or /proc/net/tcp if the kernel has no sock_diag."""
        return cls(find_source(), has_own_users=os.geteuid() == 0)

    def close(self) -> None:
        """Close the source. No further lookup is possible."""
        if self._source is not None:
            self._source.close()

    def expect(self, port: int, expected: ExpectedInstance) -> None:
        """From now on, trust only this instance on the port. Another call with the same instance has no effect. While a
        process of another environment uses the port, that environment keeps the port, and this instance gets no
        request."""
        known = self._ports.get(port)
        if known is not None and _is_reserved(known.expected, expected):
            logger.error("%s does not get port %d, which %s has", expected.mark, port, known.expected.mark)
        elif known is None or known.expected.mark != expected.mark:
            self._ports[port] = _Port(expected)
        else:
            known.expected = expected

    def forget(self, port: int, mark: str) -> None:
        """Trust no listener on the port any more, since all processes of the instance have ended."""
        known = self._ports.get(port)
        if known is not None and known.expected.mark == mark:
            del self._ports[port]

    def verified_cookies(self, port: int) -> frozenset[int]:
        """Return the cookies of the port's listeners that were verified to be the instance's own."""
        found = self._ports.get(port)
        return frozenset() if found is None else found.known

    def is_owned(self, port: int, known: frozenset[int]) -> bool:
        """Return True if every socket that may have accepted the connection is in `known`. Otherwise start an
        examination in the background, so that a later connection may be trusted."""
        if self._source is None:
            return True
        candidates = self._find_candidates(port)
        if candidates and all(each.cookie in known for each in candidates):
            return True
        if candidates:
            self._start_examination(port, candidates)
        return False

    async def examine(self, port: int) -> Verdict:
        """Examine the current listener on the port, and return whose it is."""
        if self._source is None:
            return Verdict.OWN
        candidates = self._find_candidates(port)
        if not candidates:
            return Verdict.FOREIGN if candidates is None else Verdict.NOBODY
        if all(each.cookie in self.verified_cookies(port) for each in candidates):
            return Verdict.OWN
        task = self._start_examination(port, candidates)
        return Verdict.FOREIGN if task is None else await asyncio.shield(task)

    def find_user(self, port: int) -> int | None:
        """Return the user whose socket accepts connections to the port. None if there is none, or if the user is
        unknown."""
        try:
            found = None if self._source is None else self._source.find(port)
        except OSError:
            return None
        return None if found is None else found.uid

    async def list_listeners(self, port: int) -> list[Listener]:
        """Return all listeners, on any port, of the instance that `port` was assigned to. Empty if they are unknown."""
        state = self._ports.get(port)
        if self._source is None or state is None:
            return []
        try:
            found = self._source.find_all(limit=_MAX_LISTED)
        except OSError:
            return []
        async with self._throttle.admit(_environment_key(state.expected)) as usage:
            sockets = await self._read(state.expected, usage)
        return sorted(each for each in found if self._judge(state.expected, each, sockets) is not False)

    def _find_candidates(self, port: int) -> list[Listener] | None:
        """Return the listeners that may accept a connection; empty if the lookup fails, None if there are too many.
        There are several only if they share the port (SO_REUSEPORT), which the kernel allows only to sockets of one
        user."""
        assert self._source is not None
        try:
            found = self._source.find(port)
            if found is None:
                return []
            if self._has_own_users:
                return [found]
            sharing = self._find_port_sharers(port)
        except OSError as error:
            self._warn_once("lookup", "listeners cannot be looked up, so no request is sent: %s", error)
            return []
        if sharing is None:
            return None
        return [each for each in sharing if each.address == found.address] or [found]

    def _find_port_sharers(self, port: int) -> list[Listener] | None:
        assert self._source is not None
        state, now = self._ports.get(port), asyncio.get_running_loop().time()
        if state is not None and now < state.crowded_until:
            return None
        sharing = self._source.find_all(port, _MAX_LISTENERS + 1)
        if len(sharing) <= _MAX_LISTENERS:
            return sharing
        if state is not None:
            state.crowded_until = now + _FOREIGN_SECONDS
            self._warn_once(
                ("crowded", state.expected.mark),
                "more than %d sockets listen on 127.0.0.1:%d, the port of %s, too many to verify for each request: no "
                "request is sent to it. Have it listen with fewer (SO_REUSEPORT)",
                _MAX_LISTENERS,
                port,
                state.expected.mark,
            )
        return None

    def _start_examination(self, port: int, candidates: list[Listener]) -> "asyncio.Task[Verdict] | None":
        """Start an examination, or join the one that runs. Return None if all candidates were found to be foreign a
        moment ago."""
        state = self._ports.get(port)
        if state is None:
            return None
        if state.examination is not None:
            return state.examination
        now = asyncio.get_running_loop().time()
        state.foreign = {key: at for key, at in state.foreign.items() if now - at < _FOREIGN_SECONDS}
        unknown = [each for each in candidates if each.cookie not in state.known]
        if all(each.cookie in state.foreign for each in unknown):
            return None
        state.examination = asyncio.create_task(self._examine(port, state), name=f"examine port {port}")
        state.examination.add_done_callback(self._log_fault)
        return state.examination

    def _log_fault(self, examination: "asyncio.Task[Verdict]") -> None:
        fault = None if examination.cancelled() else examination.exception()
        if fault is not None:
            self._warn_once(str(fault), "a listener could not be examined, so no request is sent: %s", fault)

    async def _examine(self, port: int, state: _Port) -> Verdict:
        try:
            async with self._throttle.admit(_environment_key(state.expected)) as usage:
                # The listeners may have changed during the wait.
                candidates = self._find_candidates(port)
                if candidates is None or self._ports.get(port) is not state:
                    return Verdict.FOREIGN
                if not candidates:
                    return Verdict.NOBODY
                self._drop_closed(port, state)
                unknown = [each for each in candidates if each.cookie not in state.known]
                needed = frozenset(each.inode for each in unknown if each.uid == state.expected.uid)
                sockets = await self._read(state.expected, usage, needed)
            verdicts = {each: self._judge(state.expected, each, sockets) for each in unknown}
            for listener, verdict in verdicts.items():
                if verdict is False:
                    self._refuse(state, listener, sockets)
                elif verdict is None and not self._has_own_users:
                    self._warn_once(
                        "unreadable",
                        "descriptors of processes cannot be read and all applications run as one user: any of them may "
                        "answer for another one that has crashed",
                    )
            state.known |= {each.cookie for each, verdict in verdicts.items() if verdict is not False}
            refused = [each for each, verdict in verdicts.items() if verdict is False]
            if refused and all(_may_be_own(state.expected, each, sockets) for each in refused):
                return Verdict.UNREADABLE
            return Verdict.FOREIGN if refused else Verdict.OWN
        finally:
            state.examination = None

    def _drop_closed(self, port: int, state: _Port) -> None:
        """Forget the cookies of closed sockets: a program may have opened and closed any number of sockets."""
        assert self._source is not None
        try:
            state.known &= {each.cookie for each in self._source.find_all(port, _MAX_LISTENERS)}
        except OSError:
            state.known = frozenset()

    async def _read(
        self, expected: ExpectedInstance, usage: Usage, needed: frozenset[int] | None = None
    ) -> OpenSockets:
        read = partial(read_open_sockets, expected.uid, expected.mark, expected.leader(), needed)
        sockets, usage.cost_seconds = await run_in_pool(self._threads, partial(_measure_cpu, read))
        if not sockets.is_complete and self._user_decides is None:
            self._user_decides = not await run_in_pool(self._threads, can_read_other_processes)
        return sockets

    def _judge(self, expected: ExpectedInstance, listener: Listener, sockets: OpenSockets) -> bool | None:
        """Return True if the listener belongs to the instance, and False if it does not. Return None if it has the
        right user and this machine lets Pharos find out no more.

        A process can hide its descriptors (PR_SET_DUMPABLE). If one user runs all applications, a listener that no
        readable process of the instance has open may therefore belong to a neighbour.
        """
        if listener.uid != expected.uid or expected.leader() is None:
            return False
        if listener.inode in sockets.own:
            return True
        if listener.inode in sockets.others or sockets.is_complete:
            return False
        return None if self._user_decides else False

    def _refuse(self, state: _Port, listener: Listener, sockets: OpenSockets) -> None:
        state.foreign[listener.cookie] = asyncio.get_running_loop().time()
        if _may_be_own(state.expected, listener, sockets):
            self._warn_once(
                listener.cookie,
                "the descriptors of %s cannot be read, so its listener on 127.0.0.1:%d cannot be verified: no request "
                "is sent to it. Keep its processes dumpable (PR_SET_DUMPABLE), or run Pharos as root",
                state.expected.mark,
                listener.port,
            )
            return
        self._warn_once(
            listener.cookie,
            "another program (user %d) listens on 127.0.0.1:%d, the port of %s: no request is sent to it",
            listener.uid,
            listener.port,
            state.expected.mark,
        )

    def _warn_once(self, about: object, message: str, *values: object) -> None:
        if about in self._warned:
            return
        if len(self._warned) > 10_000:
            self._warned.clear()
        self._warned.add(about)
        logger.warning(message, *values)


def _is_reserved(current: ExpectedInstance, requested: ExpectedInstance) -> bool:
    """Return True if a running process of another environment uses the port."""
    return _environment_key(current) != _environment_key(requested) and current.leader() is not None


def _environment_key(expected: ExpectedInstance) -> tuple[int, int]:
    return expected.uid, expected.environment_id


def _measure_cpu(read: Callable[[], OpenSockets]) -> tuple[OpenSockets, float]:
    """Call `read`. Return the sockets and the CPU time of the call in seconds, which does not depend on the load that
    others cause."""
    began = time.thread_time()
    return read(), time.thread_time() - began


def _may_be_own(expected: ExpectedInstance, listener: Listener, sockets: OpenSockets) -> bool:
    """Return True if only hidden descriptors of the instance prevent the verification of the listener."""
    return (
        sockets.has_unreadable_own and listener.uid == expected.uid and listener.inode not in sockets.others
    )
