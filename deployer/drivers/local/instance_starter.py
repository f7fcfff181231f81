"""Starts instances of releases, and takes over instances that a former deployer process started."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from deployer.drivers.interface import WEB, DeployFailed, Run, Tenancy
from deployer.drivers.local.artefacts import Artefacts
from deployer.drivers.local.folders import Folders
from deployer.drivers.local.instance import Instance, Mark, expect_listener
from deployer.drivers.local.orphans import Orphans, find_pid
from deployer.drivers.local.ports import NoPort, Ports
from deployer.listeners.owners import ListenerOwners
from deployer.processes.confinement import Confinement, Limits
from deployer.processes.running_process import RunningProcess
from deployer.processes.supervised_process import SupervisedProcess


class InstanceStarter:
    """Starts the instances of all environments."""

    def __init__(
        self,
        folders: Folders,
        artefacts: Artefacts,
        ports: Ports,
        orphans: Orphans,
        listeners: ListenerOwners,
        limits: Limits,
        hidden: tuple[Path, ...],
        list_marks: Callable[[], set[Mark]],
    ) -> None:
        """`list_marks`: returns the marks of all running instances."""
        self._folders = folders
        self._artefacts = artefacts
        self._ports = ports
        self._orphans = orphans
        self._listeners = listeners
        self._limits = limits
        self._hidden = hidden
        self._list_marks = list_marks

    def start(
        self, tenancy: Tenancy, run: Run, name: str, number: int, on_change: Callable[[], None]
    ) -> Instance:
        """Start the instance, or take it over if it runs already. Raises `DeployFailed`."""
        process = run.workflow.processes[name]
        owner = self._folders.runner(tenancy)
        fault = self._folders.find_home_fault(tenancy)
        if fault is not None and self._orphans.find_mark(tenancy, run, name, number) is None:
            raise DeployFailed(fault)
        confinement = Confinement(
            folder=self._folders.artefact(run.artefact),
            home=self._folders.home_path(tenancy, "run"),
            owner=owner,
            limits=self._limits,
            is_writable=False,
            hidden=self._hidden,
        )
        output = self._folders.output(tenancy, run.deployment_id, name, number)
        mark, orphan = self._choose_mark(tenancy, run, name, number)
        self._artefacts.add_started(run)
        instance: Instance

        def changed(_: SupervisedProcess) -> None:
            instance.changed()

        def renew() -> tuple[str, Mapping[str, str]]:
            instance.mark = self._give_port(mark)
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
        self._expect(mark, instance.find_leader if orphan is None else partial(find_pid, orphan))
        supervised.start()
        return instance

    def _choose_mark(
        self, tenancy: Tenancy, run: Run, name: str, number: int
    ) -> tuple[Mark, RunningProcess | None]:
        """Return the mark of the instance, and its process if it runs already."""
        if (found := self._orphans.find_mark(tenancy, run, name, number)) is not None:
            return found, self._orphans.take(found)
        mark = Mark(self._folders.identity.id, tenancy.environment_id, run.deployment_id, name, number, 0)
        try:
            return self._give_port(mark), None
        except NoPort as error:
            raise DeployFailed(f"{name}.{number} could not be started: {error.strerror}.") from error

    def _give_port(self, mark: Mark) -> Mark:
        """Give a web instance a port that it never had. Raises `NoPort`."""
        if mark.process != WEB:
            return mark
        return mark._replace(port=self._ports.give({running.port for running in self._list_marks()}))

    def _expect(self, mark: Mark, find_leader: Callable[[], int | None]) -> None:
        expect_listener(self._listeners, mark, self._folders.runner_uid(mark.environment_id), find_leader)


def _variables(run: Run, mark: Mark) -> Mapping[str, str]:
    variables = run.variables_of(mark.process)
    return {**variables, "PORT": str(mark.port)} if mark.process == WEB else variables
