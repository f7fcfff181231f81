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
"""The name of the process that receives requests."""


class DeployFailed(Exception):
    """A deployment, or bringing an environment to its desired state, failed.

    The message says why; it is the last line of the deployment's log.
    """


class ReleaseUnusable(DeployFailed):
    """This deployer cannot run the release, and a retry cannot help, as when files of the release are missing."""


@dataclass(frozen=True, slots=True)
class Tenancy:
    """The environment of processes, its project, and its hosts."""

    environment_id: int
    project_id: int
    public_id: str
    """The public ID of the environment. It is never reused, unlike the number: SQLite gives the number of a removed
    environment to the next one."""
    hosts: tuple[str, ...]
    address: str
    """The URL of the first host, with scheme and port."""


@dataclass(frozen=True, slots=True)
class Source:
    """The revision to build, and its parameters."""

    deployment_id: int
    url: str
    ref: str | None
    revision: str
    workflow: WorkflowDocument | None
    """None: the document in the repository."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The artefact of a build, and the workflow document that the build used."""

    artefact: str
    workflow: WorkflowDocument


@dataclass(frozen=True, slots=True)
class Run:
    """A release as one deployment runs it in an environment."""

    deployment_id: int
    """A rollback has its own ID: it starts new processes of the old release."""
    artefact: str
    workflow: WorkflowDocument
    variables: Mapping[str, str] = field(repr=False)
    """Those that people have set."""
    telemetry: TelemetryVariables | None = None
    """None: the application gets no variables for telemetry."""
    revision: str = ""

    def variables_of(self, process: str) -> Mapping[str, str]:
        """Return all variables of a process with this name, except PORT."""
        if self.telemetry is None:
            return self.variables
        return self.telemetry.for_process(process, self.revision, self.variables)

    def count_instances(self, replicas: int) -> dict[str, int]:
        """Return the number of instances by process. `replicas`: the environment's setting for `web`."""
        return {
            name: replicas if name == WEB else process.replicas
            for name, process in self.workflow.processes.items()
        }

    def list_instances(self, replicas: int) -> list[tuple[str, int]]:
        """Return the process name and number, from 1, of each instance."""
        return [
            (name, number)
            for name, count in self.count_instances(replicas).items()
            for number in range(1, count + 1)
        ]


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """One instance of a process as the API shows it."""

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
    """The live deployment of an environment at the last read of the database."""

    public_id: str
    """The environment's."""
    deployment_id: int
    hosts: tuple[str, ...]
    """Empty: the environment hibernated."""


@dataclass(frozen=True, slots=True)
class Retained:
    """The objects that a sweep must not remove."""

    environments: Mapping[int, str]
    """The public IDs of all environments."""
    artefacts: Set[str]
    """Artefacts of releases that are live, retained, or being deployed."""
    deployments: Set[int]
    """The active deployments, each of which may be building an artefact."""
    moved: Set[int] = frozenset()
    """Environments that another deployer runs now. Their folders are retained."""


@dataclass(frozen=True, slots=True)
class Traces:
    """Evidence of earlier deployments that the driver finds without a database."""

    environments: Sequence[str]
    """The public IDs of environments that ran here."""
    newest_deployment: int
    """The newest deployment that has an artefact; 0: there is none."""


ReadRetained = Callable[[], Awaitable[Retained]]


ReportInstances = Callable[[int, Sequence[InstanceStatus]], None]
"""Called with an environment and all its instances whenever one of them changes."""


class LogSink(Protocol):
    """Receives the lines of a deployment's log. Each method returns when the log can accept more, and raises
    `DeployFailed` if the log has become too long."""

    async def write(self, stream: Stream, data: bytes) -> None:
        """Write a part of a step's output."""

    async def write_line(self, text: str) -> None:
        """Write a line of Pharos itself."""

    async def begin_step(self, step: DeploymentStep, commit: tuple[str, str] | None = None) -> None:
        """Record that the deployment is at this step, and subject and author of its commit if they are known."""


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
        """Start the release next to the live one, and return when all instances are healthy. Raises `DeployFailed`;
        `reconcile` then ends the started instances."""

    async def switch(self, tenancy: Tenancy, run: Run) -> None:
        """Route all requests to the started instances, let the former instances finish their requests in flight, and
        end them. Raises `DeployFailed` if the traffic cannot be switched, and `ReleaseUnusable`."""

    async def reconcile(
        self, tenancy: Tenancy, run: Run | None, replicas: int, *, wakes: bool = False
    ) -> None:
        """Bring the environment to exactly this run: start what is missing, scale one by one, and end everything else.

        `replicas` 0: hibernated; `wakes`: the first request wakes the environment.
        """

    async def sweep(self, read_retained: ReadRetained) -> bool:
        """End processes and remove files that need not be retained. Deployments go on meanwhile, so `read_retained` is
        called right before a removal. Return True if something was left because it is in use: sweep again soon."""


class Handover(Protocol):
    """The methods of a driver for start and end of the deployer: instances outlive the process of their deployer, and
    the next process takes them over."""

    def read_traces(self) -> Traces:
        """Return the evidence of earlier deployments. Blocks."""

    async def find_orphans(self) -> None:
        """Find the instances that a former process of this deployer started; a later `reconcile` or `start` takes them
        over. Call this before all other methods that concern processes."""

    def first_routes(self, live: Mapping[int, LastLive]) -> Mapping[int, Route]:
        """Return the route of each environment until its first `reconcile`: requests go to the found instances of the
        live release, or wait for one."""

    async def close(self, *, stops: bool) -> None:
        """Leave the instances running for the next process of this deployer; with `stops`, end them."""
