"""The interface of drivers, which build and run releases."""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from control_domain.workflows.document import WorkflowDocument
from deployer.telemetry_variables import TelemetryVariables
from deployer.traffic.interface import Route
from pipeline_contracts.deploy_states import DeploymentStep

Stream = Literal["stdout", "stderr", "system"]
WEB = "web"
"""The name of the process type that receives requests."""


class DeployFailed(Exception):
    """A deployment failed, or an environment could not be brought to its desired state.

    The message says why; it is the last line of the deployment's log.
    """


class ReleaseUnusable(DeployFailed):
    """This deployer cannot run the release, and a retry cannot help, as when files of the release are missing."""


@dataclass(frozen=True, slots=True)
class Tenancy:
    """The environment that a process belongs to, with its project and its hosts."""

    environment_id: int
    project_id: int
    public_id: str
    """The public ID of the environment. It is never reused. The database number is: SQLite gives the number of a
    removed environment to the next one."""
    hosts: tuple[str, ...]
    address: str
    """The URL of the environment's first host, with scheme and port."""


@dataclass(frozen=True, slots=True)
class Source:
    """The revision to build, and where it comes from."""

    deployment_id: int
    url: str
    ref: str | None
    revision: str
    workflow: WorkflowDocument | None
    """The workflow document. None: use the document in the repository."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The artefact of a build, and the workflow document that the build used."""

    artefact: str
    workflow: WorkflowDocument


@dataclass(frozen=True, slots=True)
class Run:
    """A release together with the deployment that runs it in an environment."""

    deployment_id: int
    """The ID of the deployment that runs the release. A rollback has an ID of its own, because it starts new processes
    of the old release."""
    artefact: str
    workflow: WorkflowDocument
    variables: Mapping[str, str] = field(repr=False)
    """The variables that people have set."""
    telemetry: TelemetryVariables | None = None
    """The variables for telemetry. None: the application gets none."""
    revision: str = ""

    def variables_of(self, process: str) -> Mapping[str, str]:
        """Return all variables of the process type with this name, such as `web`. Only PORT is missing."""
        if self.telemetry is None:
            return self.variables
        return self.telemetry.for_process(process, self.revision, self.variables)

    def count_instances(self, replicas: int) -> dict[str, int]:
        """Return the number of instances of each process type. `replicas`: the number for `web`, which the environment
        sets."""
        return {
            name: replicas if name == WEB else process.replicas
            for name, process in self.workflow.processes.items()
        }

    def list_instances(self, replicas: int) -> list[tuple[str, int]]:
        """Return the process name and the number, counted from 1, of each instance."""
        return [
            (name, number)
            for name, count in self.count_instances(replicas).items()
            for number in range(1, count + 1)
        ]


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The state of one instance of a process, as the API shows it."""

    deployment_id: int
    process: str
    number: int
    state: Literal["starting", "running", "waiting", "draining"]
    port: int | None
    pid: int | None
    restarts: int
    last_exit: str | None
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class LastLive:
    """The deployment that was live in an environment when the database was last read."""

    public_id: str
    """The public ID of the environment."""
    deployment_id: int
    hosts: tuple[str, ...]
    """The host names of the environment. Empty if the environment hibernated."""


@dataclass(frozen=True, slots=True)
class Retained:
    """The objects that the driver's `sweep` must not remove."""

    environments: Mapping[int, str]
    """The public IDs of all environments."""
    artefacts: Set[str]
    """Artefacts of releases that are live, retained, or being deployed."""
    deployments: Set[int]
    """The active deployments, each of which may be building an artefact."""
    moved: Set[int] = frozenset()
    """Environments that another deployer runs now. The sweep keeps their folders on this machine."""


@dataclass(frozen=True, slots=True)
class Traces:
    """Evidence of earlier deployments that the driver finds without a database."""

    environments: Sequence[str]
    """The public IDs of environments that ran here."""
    newest_deployment: int
    """The ID of the newest deployment that has an artefact. 0 if there is none."""


ReadRetained = Callable[[], Awaitable[Retained]]


ReportInstances = Callable[[int, Sequence[InstanceStatus]], None]
"""A function that is called with an environment and all its instances whenever one of them changes."""


class LogSink(Protocol):
    """Receives the lines of a deployment's log. Each method returns when the log can accept more, and raises
    `DeployFailed` if the log has become too long."""

    async def write(self, stream: Stream, data: bytes) -> None:
        """Write a part of the output of a step."""

    async def write_line(self, text: str) -> None:
        """Write a line of text from Pharos."""

    async def begin_step(self, step: DeploymentStep, commit: tuple[str, str] | None = None) -> None:
        """Record that the deployment is at this step. `commit`: the subject and author of its commit, if they are
        known."""


class Driver(Protocol):
    """Builds and runs releases. Each call may be interrupted at any point, by a cancellation or by the end of the
    process, and is then repeated."""

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: LogSink
    ) -> BuildResult:
        """Check the revision out and run the build steps. Raises `DeployFailed`, and then leaves no files."""

    async def run_release_steps(self, tenancy: Tenancy, run: Run, log: LogSink) -> None:
        """Run the release steps. Raises `DeployFailed`."""

    async def start(self, tenancy: Tenancy, run: Run, replicas: int, log: LogSink) -> None:
        """Start the release next to the live one. Return when all instances are healthy. Raises `DeployFailed`. After
        a failure, `reconcile` ends the instances that were started."""

    async def switch(self, tenancy: Tenancy, run: Run) -> None:
        """Route all requests to the instances that `start` has started. Let the former instances finish their requests
        in flight, then end them. Raises `DeployFailed` if the traffic cannot be switched, and `ReleaseUnusable`."""

    async def reconcile(
        self, tenancy: Tenancy, run: Run | None, replicas: int, *, wakes: bool = False
    ) -> None:
        """Make the environment run exactly this release: start missing instances, scale one by one, and end all other
        processes.

        `replicas`: the number of `web` instances; 0 hibernates the environment. `wakes`: the first request wakes a
        hibernated environment.
        """

    async def sweep(self, read_retained: ReadRetained) -> bool:
        """End processes and remove files that need not be kept. Deployments run meanwhile, so this calls
        `read_retained` right before each removal. Return True if something is still in use and was left: then sweep
        again soon."""


class Handover(Protocol):
    """What a driver does at the start and at the end of the deployer process. Instances outlive that process, and the
    next process takes them over."""

    def read_traces(self) -> Traces:
        """Return the evidence of earlier deployments in the deployer's folder. Blocking."""

    async def find_orphans(self) -> None:
        """Find the instances that a former process of this deployer started. A later `reconcile` or `start` takes them
        over. Call this method before all others that concern processes."""

    def first_routes(self, live: Mapping[int, LastLive]) -> Mapping[int, Route]:
        """Return the route of each environment for the time before its first `reconcile`. Requests go to the instances
        of the live release that were found, or wait until there is one."""

    async def close(self, *, stops: bool) -> None:
        """Leave the instances running for the next process of this deployer. With `stops`, end them instead."""
