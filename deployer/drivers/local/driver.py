"""The local driver: processes of this machine."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from deployer.drivers.interface import (
    WEB,
    Built,
    LastLive,
    ReadKept,
    ReleaseUnusable,
    Report,
    Run,
    Source,
    Tenancy,
    WorkFailed,
    WorkLog,
)
from deployer.drivers.local.build import Builder
from deployer.drivers.local.fleet import Fleet
from deployer.drivers.local.folders import Folders
from deployer.drivers.local.instance import Instance, Mark
from deployer.drivers.local.orphans import choose_orphans
from deployer.drivers.local.ports import NoPort, Ports
from deployer.identity import Identity
from deployer.listeners.owners import ExpectedInstance, ListenerOwners
from deployer.processes.confinement import Confinement, Limits
from deployer.processes.marks import StillRunning, end_exact_marks, end_marked, find_marked
from deployer.processes.running_process import RunningProcess, adopt_process
from deployer.processes.supervised_process import SupervisedProcess
from deployer.traffic.interface import Route, Target, Traffic, drain

logger = logging.getLogger(__name__)

_TOLD_LINES = 20
_TOLD_BYTES = 8192
_GRACE_SECONDS = 10.0
# For ending processes of the former deployer. Requests wait until then.
_PATIENCE_SECONDS = 10.0


class LocalDriver:
    """A `Driver`. `hidden`: folders that no application may see."""

    def __init__(
        self,
        identity: Identity,
        traffic: Traffic,
        report: Report,
        *,
        hidden: tuple[Path, ...],
        limits: Limits,
        drain_seconds: float,
        listeners: ListenerOwners,
    ) -> None:
        self._identity = identity
        self._traffic = traffic
        self._report = report
        self._folders = Folders(identity)
        self._hidden = hidden
        self._limits = limits
        self._drain_seconds = drain_seconds
        self._listeners = listeners
        self._ports = Ports()
        self._builder = Builder(self._folders, limits, hidden)
        self._fleets: dict[int, Fleet] = {}
        self._orphans: dict[Mark, RunningProcess] = {}
        self._building: set[str] = set()
        self._using: Counter[str] = Counter()
        self._artefacts: dict[int, str] = {}
        """Of deployments that were started, by their numbers."""
        self._release_locks: dict[int, asyncio.Lock] = {}
        """By environment; held while release steps run, which have the same user as the environment's instances."""

    async def find_orphans(self) -> None:
        """Look for what an earlier process of this deployer has started: steps are ended, instances are taken over by
        whoever asks for them. Before anything else."""
        marked = await asyncio.to_thread(find_marked, f"{self._identity.id}/")
        chosen = choose_orphans(marked, self._folders.runner_uid, self._listeners.find_user)
        for mark, process in chosen.items():
            try:
                self._orphans[mark] = orphan = adopt_process(process.pid, str(mark))
            except ProcessLookupError:
                # It has ended just now; what it has started may not have.
                continue
            self._ports.avoid(mark.port)
            self._expect(mark, partial(_pid_of, orphan))
        try:
            await end_exact_marks(marked.keys() - {str(mark) for mark in self._orphans}, _PATIENCE_SECONDS)
        except StillRunning as error:
            # One application that starts processes again and again must not block the requests of all others.
            logger.warning("processes of an earlier deployer could not be ended: %s", error)

    def first_routes(self, live: Mapping[int, LastLive]) -> Mapping[int, Route]:
        """Where requests go until each environment is kept: to what an earlier process of this deployer has started of
        the deployment that brought its live release, or they wait. Nobody is told that there is no such environment."""
        routes = {}
        for number, one in live.items():
            ports = [
                mark.port for mark in self._orphans if mark.port and mark[1:3] == (number, one.deployment_id)
            ]
            routes[number] = Route(one.hosts, tuple(map(Target, ports)), is_awaited=True)
        return routes

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: WorkLog
    ) -> Built:
        """See `Driver`."""
        name = str(source.deployment_id)
        self._building.add(name)
        try:
            return Built(*await self._builder.build(tenancy, source, variables, log))
        finally:
            self._building.discard(name)

    async def release(self, tenancy: Tenancy, run: Run, log: WorkLog) -> None:
        """See `Driver`."""
        with self._use(run) as folder:
            async with self._release_lock(tenancy.environment_id):
                await self._builder.run_steps(
                    "release", run.workflow.release, run.variables, folder, tenancy, run.deployment_id, log
                )

    async def start(self, tenancy: Tenancy, run: Run, replicas: int, log: WorkLog) -> None:
        """See `Driver`. Where something ends, or is not healthy, its last lines are in the log."""
        with self._use(run):
            await self._start(tenancy, run, replicas, log)

    async def _start(self, tenancy: Tenancy, run: Run, replicas: int, log: WorkLog) -> None:
        fleet = self._fleet(tenancy)
        told = ", ".join(f"{name} x {count}" for name, count in run.counts(replicas).items())
        await log.say(f"Starts {told}.")
        try:
            await fleet.start(run, replicas)
        except WorkFailed:
            for path in self._outputs(tenancy, run, replicas):
                await _tell_output(path, log)
            raise
        await log.say("All are healthy: requests go there from now on.")

    async def switch(self, tenancy: Tenancy, run: Run) -> None:
        """See `Driver`."""
        with self._use(run):
            await self._fleet(tenancy).switch(run)

    async def keep(self, tenancy: Tenancy, run: Run | None, replicas: int, *, wakes: bool = False) -> None:
        """See `Driver`."""
        fleet = self._fleet(tenancy)
        if run is None or replicas == 0:
            fault = None
            await fleet.keep(run, replicas, wakes=wakes)
        else:
            with self._use(run):
                fault = self._home_fault(tenancy)
                await fleet.keep(run, replicas, wakes=wakes)
        await self._end_orphans(tenancy.environment_id)
        lock = self._release_lock(tenancy.environment_id)
        if not fleet.instances and not lock.locked():
            async with lock:
                # Whatever has got rid of its mark is still this user's.
                await end_marked(
                    f"{self._identity.id}/{tenancy.environment_id}/", self._folders.runner(tenancy)
                )
        if fault is not None:
            raise WorkFailed(fault)

    def _home_fault(self, tenancy: Tenancy) -> str | None:
        """Why no process of the environment can be started: one that runs goes on."""
        try:
            self._folders.home(tenancy, self._folders.runner(tenancy), "run")
        except OSError as error:
            return (
                f"The folder {error.filename} cannot be written ({error.strerror}), and what needs it cannot be "
                "started: make it writable for the deployer."
            )
        return None

    async def sweep(self, read_kept: ReadKept) -> bool:
        """See `Driver`."""
        await self._end_removed(read_kept)
        # Listed before what is kept is read: what a build makes after that is in neither.
        listed = {kind: self._folders.names(kind) for kind in ("artefacts", "homes", "outputs", "sealing")}
        kept = await read_kept()
        # From here to the last folder that is set aside nothing is awaited: what a start finds, it keeps.
        used = self._used_artefacts()
        wanted = {
            "artefacts": kept.artefacts | self._building | {str(number) for number in kept.deployments},
            "homes": set(kept.environments.values()),
            "outputs": set(kept.environments.values()),
            "sealing": self._building,
        }
        needless = [
            (kind, name) for kind, names in listed.items() for name in names if name not in wanted[kind]
        ]
        running = {mark.deployment_id for mark in self._marks()}
        self._artefacts = {number: name for number, name in self._artefacts.items() if number in running}
        folders = [self._folders.root / kind / name for kind, name in needless if name not in used]
        is_spared = len(folders) < len(needless)
        folders += self._folders.old_outputs(kept.environments.values(), running)
        for folder in folders:
            self._folders.set_aside(folder)
        await self._folders.remove_set_aside()
        return is_spared

    async def _end_removed(self, read_kept: ReadKept) -> None:
        """End all processes of removed environments, and processes that a former deployer process started for
        environments that another deployer runs by now."""
        running = {*self._fleets, *(mark.environment_id for mark in self._orphans)}
        kept = await read_kept()
        moved = {mark.environment_id for mark in self._orphans} & kept.moved - set(self._fleets)
        await asyncio.gather(*map(self._end_moved, moved))
        removed = running - set(kept.environments)
        leaving = [mark for mark in self._orphans if mark.environment_id in removed]
        await asyncio.gather(*(self._end_orphan(mark) for mark in leaving))
        for number in removed:
            fleet = self._fleets.get(number)
            if fleet is not None:
                await fleet.keep(None, 0, wakes=False)
                await fleet.close()
                self._fleets.pop(number, None)
                self._release_locks.pop(number, None)
            await self._traffic.remove_route(number)

    async def _end_moved(self, environment_id: int) -> None:
        await self._traffic.remove_route(environment_id)
        await self._end_orphans(environment_id)

    def _used_artefacts(self) -> set[str]:
        """What something runs from, or is about to."""
        # A rollback's own number is not that of the artefact.
        running = {mark.deployment_id for mark in self._marks()}
        return {self._artefacts.get(number, str(number)) for number in running} | set(+self._using)

    @contextmanager
    def _use(self, run: Run) -> Iterator[Path]:
        """Yield the run's artefact, which no sweep removes meanwhile. Raises `ReleaseUnusable`."""
        folder = self._artefact(run)
        self._using[run.artefact] += 1
        try:
            yield folder
        finally:
            self._using[run.artefact] -= 1

    async def close(self, *, stops: bool) -> None:
        """Leave what runs running, to be taken over by the next process of this deployer; or stop it."""
        fleets = list(self._fleets.values())
        if stops:
            orphans = [self._end_orphan(mark) for mark in list(self._orphans)]
            await asyncio.gather(*(fleet.stop() for fleet in fleets), *orphans)
        for fleet in fleets:
            await fleet.close()

    def _release_lock(self, environment_id: int) -> asyncio.Lock:
        return self._release_locks.setdefault(environment_id, asyncio.Lock())

    def _fleet(self, tenancy: Tenancy) -> Fleet:
        fleet = self._fleets.get(tenancy.environment_id)
        if fleet is None:

            def launch(run: Run, name: str, number: int, on_change: Callable[[], None]) -> Instance:
                # As it is by then: SQLite gives the number of a removed environment to the next one.
                return self._launch(made.tenancy, run, name, number, on_change)

            made = Fleet(tenancy, self._traffic, launch, self._tell, self._drain_seconds)
            fleet = self._fleets[tenancy.environment_id] = made
        fleet.tenancy = tenancy
        return fleet

    def _tell(self, fleet: Fleet) -> None:
        self._report(fleet.tenancy.environment_id, [one.facts() for one in fleet.instances])

    def _launch(
        self, tenancy: Tenancy, run: Run, name: str, number: int, on_change: Callable[[], None]
    ) -> Instance:
        process = run.workflow.processes[name]
        owner = self._folders.runner(tenancy)
        fault = self._home_fault(tenancy)
        if fault is not None and self._find_orphan(tenancy, run, name, number) is None:
            raise WorkFailed(fault)
        confinement = Confinement(
            folder=self._folders.artefact(run.artefact),
            home=self._folders.home_path(tenancy, "run"),
            owner=owner,
            limits=self._limits,
            is_writable=False,
            hidden=self._hidden,
        )
        output = self._folders.output(tenancy, run.deployment_id, name, number)
        mark, orphan = self._take_orphan(tenancy, run, name, number)
        self._artefacts[run.deployment_id] = run.artefact
        instance: Instance

        def changed(_: SupervisedProcess) -> None:
            instance.changed()

        def renew() -> tuple[str, Mapping[str, str]]:
            instance.mark = self._new_mark(mark)
            self._expect(instance.mark, instance.find_leader)
            return str(instance.mark), _variables(run, instance.mark)

        supervised = SupervisedProcess(
            command=process.command,
            variables=_variables(run, mark),
            confinement=confinement,
            mark=str(mark),
            output=output,
            on_change=changed,
            adopted=orphan,
            renew=renew,
        )
        instance = Instance(mark, process, tenancy.hosts[0], on_change, supervised, self._listeners)
        self._expect(mark, instance.find_leader if orphan is None else partial(_pid_of, orphan))
        supervised.start()
        return instance

    def _take_orphan(
        self, tenancy: Tenancy, run: Run, name: str, number: int
    ) -> tuple[Mark, RunningProcess | None]:
        """The mark of an instance; of one that runs already with the process."""
        if (found := self._find_orphan(tenancy, run, name, number)) is not None:
            return found, self._orphans.pop(found)
        mark = Mark(self._identity.id, tenancy.environment_id, run.deployment_id, name, number, 0)
        try:
            return self._new_mark(mark), None
        except NoPort as error:
            raise WorkFailed(f"{name}.{number} could not be started: {error.strerror}.") from error

    def _new_mark(self, mark: Mark) -> Mark:
        """Give the instance a port that it never had. Raises `NoPort`."""
        if mark.process != WEB:
            return mark
        return mark._replace(port=self._ports.give({one.port for one in self._marks()}))

    def _expect(self, mark: Mark, leader: Callable[[], int | None]) -> None:
        """Have requests sent to this instance alone on its port."""
        uid = self._folders.runner_uid(mark.environment_id)
        if mark.port and uid is not None:
            self._listeners.expect(mark.port, ExpectedInstance(uid, str(mark), leader, mark.environment_id))

    def _find_orphan(self, tenancy: Tenancy, run: Run, name: str, number: int) -> Mark | None:
        wanted = (tenancy.environment_id, run.deployment_id, name, number)
        return next((mark for mark in self._orphans if mark[1:5] == wanted), None)

    def _marks(self) -> set[Mark]:
        """Of all that runs."""
        return {one.mark for fleet in self._fleets.values() for one in fleet.instances} | self._orphans.keys()

    async def _end_orphans(self, environment_id: int) -> None:
        mine = [mark for mark in self._orphans if mark.environment_id == environment_id]
        targets = [Target(mark.port) for mark in mine if mark.port]
        await drain(self._traffic, environment_id, targets, self._drain_seconds)
        for mark in mine:
            await self._end_orphan(mark)

    async def _end_orphan(self, mark: Mark) -> None:
        process = self._orphans.pop(mark, None)
        if process is not None:
            await process.end(_GRACE_SECONDS)
            self._listeners.forget(mark.port, str(mark))

    def _artefact(self, run: Run) -> Path:
        folder = self._folders.artefact(run.artefact)
        if not folder.is_dir():
            raise ReleaseUnusable(
                f"What was built for this release is not on {self._identity.name}: deploy the revision again, or start "
                "the deployer with the folder that has it."
            )
        return folder

    def _outputs(self, tenancy: Tenancy, run: Run, replicas: int) -> list[Path]:
        return [
            self._folders.output(tenancy, run.deployment_id, name, number)
            for name, number in run.instances(replicas)
        ]


def _variables(run: Run, mark: Mark) -> Mapping[str, str]:
    return {**run.variables, "PORT": str(mark.port)} if mark.process == WEB else run.variables


def _pid_of(process: RunningProcess) -> int | None:
    return process.pid if process.is_running else None


async def _tell_output(path: Path, log: WorkLog) -> None:
    """The last lines that a process has printed."""
    lines = await asyncio.to_thread(_last_lines, path)
    if lines:
        await log.say(f"The last that {path.stem} printed:")
        text = b"".join(lines)
        await log.write("stdout", text if text.endswith(b"\n") else text + b"\n")


def _last_lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TOLD_BYTES))
            return file.read(_TOLD_BYTES).splitlines(keepends=True)[-_TOLD_LINES:]
    except FileNotFoundError:
        return []
