"""Decides whether the socket that listens on an instance's port is the instance's own."""

import asyncio
import enum
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from deployer.listeners.find_source import find_source
from deployer.listeners.interface import Listener, ListenerSource
from deployer.listeners.open_sockets import OpenSockets, can_read_other_processes, read_open_sockets
from deployer.listeners.turns import Turn, Turns
from deployer.processes.threads import run_in

logger = logging.getLogger(__name__)

# Minimum time between two checks of another user's listener: held requests ask up to 20 times a second.
_FOREIGN_SECONDS = 0.5
# More than one: a user's many processes may take seconds. No environment uses more than one of them at a time.
_THREADS = 4
# Of one port. A server with one for each worker has fewer; each request has them all looked up (2.6 µs each).
_MAX_LISTENERS = 256
# Of all ports, for the hint that an instance listens on another one.
_MAX_LISTED = 4096


class Verdict(enum.Enum):
    """Who listens on an instance's port."""

    OWN = enum.auto()
    FOREIGN = enum.auto()
    UNREADABLE = enum.auto()
    """Some process of the instance hides its descriptors, and one user runs all applications: the listener may be
    the instance's or a neighbour's. Refused like FOREIGN."""
    NOBODY = enum.auto()


@dataclass(frozen=True, slots=True)
class Expected:
    """The instance that a port was given to."""

    uid: int
    """The user it runs as."""
    mark: str
    leader: Callable[[], int | None]
    """Returns the process that the deployer started; None while there is none."""
    environment_id: int = 0
    """Shares the threads with other environments. 0: the user stands for it."""


@dataclass(slots=True)
class _Port:
    expected: Expected
    known: frozenset[int] = frozenset()
    """Cookies of listeners that are the instance's own. Those that listen no more are dropped at the next
    examination."""
    foreign: dict[int, float] = field(default_factory=dict)
    """Cookies of others' listeners, and when they were examined, by the loop's clock."""
    crowded_until: float = 0.0
    """Nobody is looked up before, by the loop's clock: there were too many."""
    examining: "asyncio.Task[Verdict] | None" = None


class ListenerOwners:
    """The ports of all instances of this deployer. For one event loop.

    A listener is examined once; after that, its cookie is compared. Connect like this:

        known = owners.known(port)      # before the connect: a listener that appears during it is not trusted
        ...                             # connect
        if not owners.is_owned(port, known): abort the connection before a byte is sent
    """

    def __init__(self, source: ListenerSource | None, *, has_own_users: bool) -> None:
        """`source`: None if listeners cannot be looked up: every listener is trusted then. `has_own_users`: each
        environment runs as a user that nobody else has."""
        self._source = source
        self._has_own_users = has_own_users
        # Whether the user alone decides where descriptors cannot be read. None: not found out yet.
        self._user_decides: bool | None = True if has_own_users else None
        self._ports: dict[int, _Port] = {}
        self._warned: set[object] = set()
        self._turns = Turns()
        # Of their own: what holds the threads that all else shares must not hold up who may have requests.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="listeners")

    @classmethod
    def of_this_machine(cls) -> "ListenerOwners":
        """Use sock_diag, or /proc/net/tcp where the kernel has none."""
        return cls(find_source(), has_own_users=os.geteuid() == 0)

    def close(self) -> None:
        """Close the source. No listener is looked up after this."""
        if self._source is not None:
            self._source.close()

    def expect(self, port: int, expected: Expected) -> None:
        """Trust only this instance on the port from now on. Repeating the call with the same instance has no effect.
        While a process of another environment has the port, that environment keeps it and this one gets no request."""
        known = self._ports.get(port)
        if known is not None and _is_taken(known.expected, expected):
            logger.error("%s does not get port %d, which %s has", expected.mark, port, known.expected.mark)
        elif known is None or known.expected.mark != expected.mark:
            self._ports[port] = _Port(expected)
        else:
            known.expected = expected

    def forget(self, port: int, mark: str) -> None:
        """Trust nobody on the port any more: all processes of the instance have ended."""
        known = self._ports.get(port)
        if known is not None and known.expected.mark == mark:
            del self._ports[port]

    def known(self, port: int) -> frozenset[int]:
        """Return the cookies of listeners that were found to be the instance's own."""
        found = self._ports.get(port)
        return frozenset() if found is None else found.known

    def is_owned(self, port: int, known: frozenset[int]) -> bool:
        """True if every socket that may have taken the connection is among `known`. Otherwise have it examined in the
        background, so that a later connection may be trusted."""
        if self._source is None:
            return True
        candidates = self._candidates(port)
        if candidates and all(each.cookie in known for each in candidates):
            return True
        if candidates:
            self._examine_soon(port, candidates)
        return False

    async def examine(self, port: int) -> Verdict:
        """Find out who listens on the port now."""
        if self._source is None:
            return Verdict.OWN
        candidates = self._candidates(port)
        if not candidates:
            return Verdict.FOREIGN if candidates is None else Verdict.NOBODY
        if all(each.cookie in self.known(port) for each in candidates):
            return Verdict.OWN
        task = self._examine_soon(port, candidates)
        return Verdict.FOREIGN if task is None else await asyncio.shield(task)

    def find_user(self, port: int) -> int | None:
        """Return the user whose socket accepts connections to the port; None if nobody's does, or it is unknown."""
        try:
            found = None if self._source is None else self._source.find(port)
        except OSError:
            return None
        return None if found is None else found.uid

    async def list_listeners(self, port: int) -> list[Listener]:
        """Return all listeners of the instance that the port was given to, on any port. Empty if they are not known."""
        place = self._ports.get(port)
        if self._source is None or place is None:
            return []
        try:
            found = self._source.find_all(limit=_MAX_LISTED)
        except OSError:
            return []
        async with self._turns.take(_environment(place.expected)) as turn:
            sockets = await self._read(place.expected, turn)
        return sorted(each for each in found if self._judge(place.expected, each, sockets) is not False)

    def _candidates(self, port: int) -> list[Listener] | None:
        """Return the listeners that may take a connection; none if the lookup fails. They are many only if they share
        the port (SO_REUSEPORT), which the kernel allows to one user's sockets alone. None: too many to look up."""
        assert self._source is not None
        try:
            found = self._source.find(port)
            if found is None:
                return []
            if self._has_own_users:
                return [found]
            sharing = self._find_sharing(port)
        except OSError as error:
            self._warn_once("lookup", "listeners cannot be looked up, so no request is sent: %s", error)
            return []
        if sharing is None:
            return None
        return [each for each in sharing if each.address == found.address] or [found]

    def _find_sharing(self, port: int) -> list[Listener] | None:
        assert self._source is not None
        place, now = self._ports.get(port), asyncio.get_running_loop().time()
        if place is not None and now < place.crowded_until:
            return None
        sharing = self._source.find_all(port, _MAX_LISTENERS + 1)
        if len(sharing) <= _MAX_LISTENERS:
            return sharing
        if place is not None:
            place.crowded_until = now + _FOREIGN_SECONDS
            self._warn_once(
                ("crowded", place.expected.mark),
                "more than %d sockets listen on 127.0.0.1:%d, the port of %s, too many to verify for each request: no "
                "request is sent to it. Have it listen with fewer (SO_REUSEPORT)",
                _MAX_LISTENERS,
                port,
                place.expected.mark,
            )
        return None

    def _examine_soon(self, port: int, candidates: list[Listener]) -> "asyncio.Task[Verdict] | None":
        """Return the examination. None: all of them were found to be somebody else's just now."""
        place = self._ports.get(port)
        if place is None:
            return None
        if place.examining is not None:
            return place.examining
        now = asyncio.get_running_loop().time()
        place.foreign = {key: at for key, at in place.foreign.items() if now - at < _FOREIGN_SECONDS}
        unknown = [each for each in candidates if each.cookie not in place.known]
        if all(each.cookie in place.foreign for each in unknown):
            return None
        place.examining = asyncio.create_task(self._examine(port, place), name=f"examine port {port}")
        place.examining.add_done_callback(self._log_fault)
        return place.examining

    def _log_fault(self, examination: "asyncio.Task[Verdict]") -> None:
        fault = None if examination.cancelled() else examination.exception()
        if fault is not None:
            self._warn_once(str(fault), "a listener could not be examined, so no request is sent: %s", fault)

    async def _examine(self, port: int, place: _Port) -> Verdict:
        try:
            async with self._turns.take(_environment(place.expected)) as turn:
                # Others may listen by now, or nobody any more.
                candidates = self._candidates(port)
                if candidates is None or self._ports.get(port) is not place:
                    return Verdict.FOREIGN
                if not candidates:
                    return Verdict.NOBODY
                self._drop_closed(port, place)
                unknown = [each for each in candidates if each.cookie not in place.known]
                sockets = await self._read(place.expected, turn, frozenset(each.inode for each in unknown))
            verdicts = {each: self._judge(place.expected, each, sockets) for each in unknown}
            for listener, verdict in verdicts.items():
                if verdict is False:
                    self._refuse(place, listener, sockets)
                elif verdict is None and not self._has_own_users:
                    self._warn_once(
                        "unreadable",
                        "descriptors of processes cannot be read and all applications run as one user: any of them may "
                        "answer for another one that has crashed",
                    )
            place.known |= {each.cookie for each, verdict in verdicts.items() if verdict is not False}
            refused = [each for each, verdict in verdicts.items() if verdict is False]
            if refused and all(_may_be_own(place.expected, each, sockets) for each in refused):
                return Verdict.UNREADABLE
            return Verdict.FOREIGN if refused else Verdict.OWN
        finally:
            place.examining = None

    def _drop_closed(self, port: int, place: _Port) -> None:
        """Forget sockets that listen no more, of which a program may have had any number."""
        assert self._source is not None
        try:
            place.known &= {each.cookie for each in self._source.find_all(port, _MAX_LISTENERS)}
        except OSError:
            place.known = frozenset()

    async def _read(
        self, expected: Expected, turn: Turn, wanted: frozenset[int] | None = None
    ) -> OpenSockets:
        read = partial(read_open_sockets, expected.uid, expected.mark, expected.leader(), wanted)
        sockets, turn.cost_seconds = await run_in(self._threads, partial(_measure, read))
        if not sockets.is_complete and self._user_decides is None:
            self._user_decides = not await run_in(self._threads, can_read_other_processes)
        return sockets

    def _judge(self, expected: Expected, listener: Listener, sockets: OpenSockets) -> bool | None:
        """Return whether the listener is the instance's; None: its user is the right one, and this machine lets Pharos
        find out no more.

        A process can hide its descriptors (PR_SET_DUMPABLE). Where one user runs all applications, a listener that no
        readable process of the instance has open may therefore be a neighbour's.
        """
        if listener.uid != expected.uid or expected.leader() is None:
            return False
        if listener.inode in sockets.own:
            return True
        if listener.inode in sockets.others or sockets.is_complete:
            return False
        return None if self._user_decides else False

    def _refuse(self, place: _Port, listener: Listener, sockets: OpenSockets) -> None:
        place.foreign[listener.cookie] = asyncio.get_running_loop().time()
        if _may_be_own(place.expected, listener, sockets):
            self._warn_once(
                listener.cookie,
                "the descriptors of %s cannot be read, so nobody can verify that it is the one who listens on "
                "127.0.0.1:%d: no request is sent to it. Its processes must stay dumpable (PR_SET_DUMPABLE), or run "
                "Pharos as root",
                place.expected.mark,
                listener.port,
            )
            return
        self._warn_once(
            listener.cookie,
            "another program (user %d) listens on 127.0.0.1:%d, the port of %s: no request is sent to it",
            listener.uid,
            listener.port,
            place.expected.mark,
        )

    def _warn_once(self, about: object, message: str, *values: object) -> None:
        if about in self._warned:
            return
        if len(self._warned) > 10_000:
            self._warned.clear()
        self._warned.add(about)
        logger.warning(message, *values)


def _is_taken(had: Expected, wanted: Expected) -> bool:
    """Return True if a running process of another environment has the port."""
    return _environment(had) != _environment(wanted) and had.leader() is not None


def _environment(expected: Expected) -> tuple[int, int]:
    return expected.uid, expected.environment_id


def _measure(read: Callable[[], OpenSockets]) -> tuple[OpenSockets, float]:
    """Return also what the look cost. In CPU time: an environment does not pay for a machine that others load."""
    began = time.thread_time()
    return read(), time.thread_time() - began


def _may_be_own(expected: Expected, listener: Listener, sockets: OpenSockets) -> bool:
    """True if only the hidden descriptors of the instance keep the listener from being verified."""
    return (
        sockets.has_unreadable_own and listener.uid == expected.uid and listener.inode not in sockets.others
    )
