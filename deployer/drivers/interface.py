"""What a deployer asks of the place where applications run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from control_domain.workflows.document import WorkflowDocument
from deployer.traffic.interface import Route
from pipeline_contracts.deploy_states import DeploymentStep

Stream = Literal["stdout", "stderr", "system"]
WEB = "web"
"""The process that requests go to."""


class DeployFailed(Exception):
    """What was to be done could not be; the message is the last line of the deployment's log, and says why."""


class ReleaseUnusable(DeployFailed):
    """This deployer cannot run the release, and a retry cannot help, as when files of the release are missing."""


@dataclass(frozen=True, slots=True)
class Tenancy:
    """Whose processes they are, and where they answer."""

    environment_id: int
    project_id: int
    public_id: str
    """The environment's, which no later one has: SQLite gives the number of one that was removed to the next."""
    hosts: tuple[str, ...]
    address: str
    """What people are told of the first of them: with scheme and port."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be built."""

    deployment_id: int
    url: str
    ref: str | None
    revision: str
    workflow: WorkflowDocument | None
    """None: the repository's own."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What came of it."""

    artefact: str
    workflow: WorkflowDocument


@dataclass(frozen=True, slots=True)
class Run:
    """A release as one deployment brings it to an environment."""

    deployment_id: int
    """Of a rollback its own: it starts new processes of the old release."""
    artefact: str
    workflow: WorkflowDocument
    variables: Mapping[str, str] = field(repr=False)

    def count_instances(self, replicas: int) -> dict[str, int]:
        """How many there are of each process: of `web` the environment says it."""
        return {
            name: replicas if name == WEB else process.replicas
            for name, process in self.workflow.processes.items()
        }

    def list_instances(self, replicas: int) -> list[tuple[str, int]]:
        """Names and numbers, from 1, of all its processes."""
        return [
            (name, number)
            for name, count in self.count_instances(replicas).items()
            for number in range(1, count + 1)
        ]


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """One process, as people are told of it."""

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
    """What an environment served when that was last read."""

    public_id: str
    """The environment's."""
    deployment_id: int
    hosts: tuple[str, ...]
    """None: it hibernated."""


@dataclass(frozen=True, slots=True)
class Retained:
    """What must not be removed."""

    environments: Mapping[int, str]
    """All environments: their public IDs."""
    artefacts: Set[str]
    """Of releases that are live, retained, or being brought."""
    deployments: Set[int]
    """The active ones, each of which may be making an artefact."""
    moved: Set[int] = frozenset()
    """Environments that another deployer runs by now. Their folders are kept."""


@dataclass(frozen=True, slots=True)
class Traces:
    """Evidence of earlier deployments that the driver finds without a database."""

    environments: Sequence[str]
    """The public IDs of environments that ran here."""
    newest_deployment: int
    """The newest deployment that has an artefact; 0: there is none."""


ReadRetained = Callable[[], Awaitable[Retained]]


ReportInstances = Callable[[int, Sequence[InstanceStatus]], None]
"""Is told of an environment's instances whenever one of them changes."""


class LogSink(Protocol):
    """Takes what is to be read in the deployment's log. Returns when there is room for more; raises `DeployFailed`
    where it has become too long."""

    async def write(self, stream: Stream, data: bytes) -> None:
        """A piece of what a step printed."""

    async def write_line(self, text: str) -> None:
        """A line of Pharos' own."""

    async def begin_step(self, step: DeploymentStep) -> None:
        """Tell that the work is at this step by now."""


class Driver(Protocol):
    """Builds and runs releases. Any of it may be cut short at any point, by a cancellation or by the end of the
    process, and is then asked for again."""

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: LogSink
    ) -> BuildResult:
        """Check the revision out and run the build steps. Raises `DeployFailed`; then nothing is left of it."""

    async def run_release_steps(self, tenancy: Tenancy, run: Run, log: LogSink) -> None:
        """Run the release steps. Raises `DeployFailed`."""

    async def start(self, tenancy: Tenancy, run: Run, replicas: int, log: LogSink) -> None:
        """Start the release beside what runs, until all of it is healthy. Raises `DeployFailed`; `reconcile` then ends
        what was started."""

    async def switch(self, tenancy: Tenancy, run: Run) -> None:
        """Route all requests to the started instances, let the former instances finish their requests in flight, and
        end them. Raises `DeployFailed` if the traffic cannot be switched, and `ReleaseUnusable`."""

    async def reconcile(
        self, tenancy: Tenancy, run: Run | None, replicas: int, *, wakes: bool = False
    ) -> None:
        """Have exactly this run, whatever did before: started again, scaled one by one, or ended. `replicas` 0:
        hibernated; `wakes`: the first request calls for it."""

    async def sweep(self, read_retained: ReadRetained) -> bool:
        """End and remove what is not to be kept. `read_retained` is called right before anything is removed, as work
        goes on meanwhile. True if something was left because it is in use: sweep again soon."""


class Handover(Protocol):
    """What a driver does for a start and an end of the deployer: instances outlive the process of their deployer, and
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
