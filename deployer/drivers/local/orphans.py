"""Finds the instances that a former process of this deployer started, so that this process takes them over.

If the kernel grants no namespaces, a program can write any mark into its environment. But a program cannot choose
its user: if Pharos is root, each environment has a user of its own.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial

from control_domain.workflows.read_workflow import MAX_REPLICAS, MOST_PROCESSES
from deployer.drivers.interface import LastLive, Run, Tenancy
from deployer.drivers.local.folders import Folders
from deployer.drivers.local.instance import GRACE_SECONDS, Mark, expect_listener
from deployer.drivers.local.ports import Ports
from deployer.listeners.owners import ListenerOwners
from deployer.processes.marks import MarkedProcess, StillRunning, end_exact_marks, find_marked
from deployer.processes.running_process import RunningProcess, adopt_process
from deployer.traffic.interface import Route, Target, Traffic, drain

logger = logging.getLogger(__name__)

# Number of processes of one environment that may claim to be instances: those of the live release, and of the former
# release during a deployment. Each one takes a file descriptor.
_MAX_CLAIMED = 2 * MOST_PROCESSES * MAX_REPLICAS
# Time for ending processes of the former deployer process. Requests wait meanwhile.
_END_SECONDS = 10.0

FindUser = Callable[[int], int | None]


class Orphans:
    """The instances that were found and that no `Fleet` has taken over yet."""

    def __init__(
        self, folders: Folders, traffic: Traffic, listeners: ListenerOwners, drain_seconds: float
    ) -> None:
        self._folders = folders
        self._traffic = traffic
        self._listeners = listeners
        self._drain_seconds = drain_seconds
        self._processes: dict[Mark, RunningProcess] = {}

    @property
    def marks(self) -> Set[Mark]:
        return self._processes.keys()

    async def find(self, ports: Ports) -> None:
        """Find the instances, and end all other processes of the former deployer process."""
        marked = await asyncio.to_thread(find_marked, f"{self._folders.identity.id}/")
        chosen = choose_orphans(marked, self._folders.runner_uid, self._listeners.find_user)
        for mark, process in chosen.items():
            try:
                self._processes[mark] = orphan = adopt_process(process.pid, str(mark))
            except ProcessLookupError:
                # The process has just ended. Processes that it has started may still run.
                continue
            ports.avoid(mark.port)
            uid = self._folders.runner_uid(mark.environment_id)
            expect_listener(self._listeners, mark, uid, partial(find_pid, orphan))
        try:
            await end_exact_marks(marked.keys() - {str(mark) for mark in self._processes}, _END_SECONDS)
        except StillRunning as error:
            # An application that starts processes again and again must not block the requests of all others.
            logger.warning("processes of an earlier deployer could not be ended: %s", error)

    def first_routes(self, live: Mapping[int, LastLive]) -> Mapping[int, Route]:
        """See `Handover`."""
        routes = {}
        for number, last in live.items():
            ports = [
                mark.port
                for mark in self._processes
                if mark.port and mark[1:3] == (number, last.deployment_id)
            ]
            routes[number] = Route(last.hosts, tuple(map(Target, ports)), is_awaited=True)
        return routes

    def find_mark(self, tenancy: Tenancy, run: Run, name: str, number: int) -> Mark | None:
        """Return the mark of a found instance; None if it was not found, or is taken over already."""
        sought = (tenancy.environment_id, run.deployment_id, name, number)
        return next((mark for mark in self._processes if mark[1:5] == sought), None)

    def take(self, mark: Mark) -> RunningProcess:
        """Hand the process of the instance over to the caller, which watches it from now on."""
        return self._processes.pop(mark)

    async def end(self, mark: Mark) -> None:
        """End the instance without draining it, unless it was taken over."""
        process = self._processes.pop(mark, None)
        if process is not None:
            await process.end(GRACE_SECONDS)
            self._listeners.forget(mark.port, str(mark))

    async def drain_and_end(self, environment_id: int) -> None:
        """Drain and end the instances of an environment."""
        marks = [mark for mark in self._processes if mark.environment_id == environment_id]
        targets = [Target(mark.port) for mark in marks if mark.port]
        await drain(self._traffic, environment_id, targets, self._drain_seconds)
        for mark in marks:
            await self.end(mark)


def find_pid(process: RunningProcess) -> int | None:
    """Return the process ID while the process runs."""
    return process.pid if process.is_running else None


def choose_orphans(
    marked: Mapping[str, Sequence[MarkedProcess]], find_runner: FindUser, find_listener: FindUser
) -> dict[Mark, MarkedProcess]:
    """Return the main process of each instance, by its mark. The caller ends all other processes of `marked`.

    `marked`: processes by their marks, the oldest first. `find_runner`: returns the user that runs the processes of
    an environment. `find_listener`: returns the user whose socket listens on a port.
    """
    leaders = {}
    for text, processes in marked.items():
        mark = Mark.read(text)
        leader = None if mark is None else _find_leader(processes, find_runner(mark.environment_id))
        if mark is not None and leader is not None:
            leaders[mark] = leader
    _drop_crowds(leaders)
    _drop_disputed(leaders, find_listener)
    return leaders


def _find_leader(processes: Sequence[MarkedProcess], uid: int | None) -> MarkedProcess | None:
    leaders = [each for each in processes if each.is_leader and each.uid == uid]
    # Without a PID namespace, a daemon also leads a session. It is younger than the command that started it.
    return next((each for each in leaders if each.is_sealed), leaders[0] if leaders else None)


def _drop_crowds(leaders: dict[Mark, MarkedProcess]) -> None:
    claimed = Counter(mark.environment_id for mark, leader in leaders.items() if not leader.is_sealed)
    crowds = {number for number, count in claimed.items() if count > _MAX_CLAIMED}
    for mark, leader in list(leaders.items()):
        if mark.environment_id in crowds and not leader.is_sealed:
            del leaders[mark]
    for number in crowds:
        logger.warning(
            "environment %d: %d processes claim to be instances, more than it can have (%d): they are ended",
            number,
            claimed[number],
            _MAX_CLAIMED,
        )


def _drop_disputed(leaders: dict[Mark, MarkedProcess], find_listener: FindUser) -> None:
    """Where several environments claim the same port, keep the instances of only one.

    Keep the environment with a mark that no program can forge, or else the one whose user listens on the port. If
    neither rule decides, keep none.
    """
    by_port: dict[int, list[Mark]] = {}
    for mark in leaders:
        if mark.port:
            by_port.setdefault(mark.port, []).append(mark)
    for port, claims in by_port.items():
        if len(_environments(claims)) == 1:
            continue
        rightful = [mark for mark in claims if leaders[mark].is_sealed] or claims
        if len(_environments(rightful)) > 1:
            listening = find_listener(port)
            rightful = [mark for mark in rightful if leaders[mark].uid == listening]
        if len(_environments(rightful)) > 1:
            rightful = []
        for mark in set(claims).difference(rightful):
            del leaders[mark]
        logger.warning(
            "environments %s claim port %d, which only one of them was given: the instances of %s are ended",
            ", ".join(map(str, sorted(_environments(claims)))),
            port,
            ", ".join(map(str, sorted(_environments(claims) - _environments(rightful)))),
        )


def _environments(marks: Sequence[Mark]) -> set[int]:
    return {mark.environment_id for mark in marks}
