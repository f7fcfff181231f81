"""Reads the output of an environment's processes if it is stored on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.runtime import host_of
from control_domain.process_output import MAX_BYTES, OutputPart, OutputUnreadable, ProcessOutput
from control_domain.projects.describe import EnvironmentSummary, summarize_environment
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease, Instance
from pipeline_contracts.errors import Conflict

# Limit for all processes together. There may be 400: 20 processes in the workflow with 20 replicas each.
_TOTAL_BYTES = 4 * 1024 * 1024
_MIN_BYTES = 16 * 1024
# If nothing runs, the output of the newest deployment is read. The number of its processes is not known.
_UNKNOWN_COUNT = 64

Running = Mapping[int, frozenset[str]]
"""The names of running processes (`web.1`), by deployment."""


class PrintedLines(TypedDict):
    """Lines that one process has printed."""

    deployment_id: int
    process: str
    number: int
    lines: Annotated[list[str], Meta(description="Whole lines, the oldest first.")]
    truncated: Annotated[bool, Meta(description="True if earlier lines were left out or removed.")]


class ProcessLines(PrintedLines):
    """The last lines that one process has printed."""

    unfinished: Annotated[str, Meta(description="The beginning of a line that has no end yet.")]


class EnvironmentOutput(TypedDict):
    """The last lines of the running processes of an environment; if none runs, of those of its newest deployment."""

    environment: EnvironmentSummary
    outputs: list[ProcessLines]


@dataclass(frozen=True, slots=True)
class OutputFilter:
    """The processes to read; None matches every process."""

    process: str | None = None
    number: int | None = None

    def matches(self, process: str, number: int) -> bool:
        """Return True for a process to read."""
        return self.process in (None, process) and self.number in (None, number)


async def find_holder(session: AsyncSession, environment: Environment) -> str | None:
    """Return the name of the deployer that has the environment, or None if none ever had it."""
    query = select(EnvironmentLease.holder_name).where(EnvironmentLease.environment_id == environment.id)
    return (await session.execute(query)).scalar_one_or_none()


async def list_running(session: AsyncSession, environment_id: int) -> Running:
    """Return the processes that run in the environment."""
    query = select(Instance.deployment_id, Instance.process, Instance.number).where(
        Instance.environment_id == environment_id
    )
    running: dict[int, set[str]] = {}
    for deployment_id, process, number in await session.execute(query):
        running.setdefault(deployment_id, set()).add(f"{process}.{number}")
    return {number: frozenset(names) for number, names in running.items()}


def merge_running(former: Running, present: Running) -> Running:
    """Return the processes of both."""
    numbers = former.keys() | present.keys()
    return {number: former.get(number, frozenset()) | present.get(number, frozenset()) for number in numbers}


async def read_output(
    output: ProcessOutput | None,
    target: DeployTarget,
    holder: str | None,
    running: Running,
    offsets: Mapping[str, int],
    wanted: OutputFilter,
) -> Sequence[OutputPart]:
    """Return the output after `offsets` (see `ProcessOutput`). `holder`: the deployer that has the environment.

    If no process runs, returns the output of the newest deployment, which usually shows why. Raises `Conflict` if the
    output is not on this machine or cannot be read.
    """
    matching = {number: _choose_names(names, wanted) for number, names in running.items()}
    matching = {number: names for number, names in matching.items() if names}
    parts: Sequence[OutputPart] | None = None
    if output is not None and running and not matching:
        return []
    if output is not None:
        count = sum(map(len, matching.values())) or _UNKNOWN_COUNT
        most_bytes = min(MAX_BYTES, max(_MIN_BYTES, _TOTAL_BYTES // count))
        try:
            parts = await output.read(target.environment.public_id, offsets, matching, most_bytes)
        except OutputUnreadable as error:
            raise Conflict(str(error)) from error
    is_here = output is not None and holder is not None and output.belongs_to(holder)
    # The folder may belong to a former deployer of the environment and contain old output.
    if parts is None or (not parts and not is_here):
        raise _explain_absence(target, holder, is_here=is_here)
    return [part for part in parts if wanted.matches(part.process, part.number)]


def _choose_names(names: frozenset[str], wanted: OutputFilter) -> frozenset[str]:
    chosen = set()
    for name in names:
        process, _, number = name.rpartition(".")
        if wanted.matches(process, int(number)):
            chosen.add(name)
    return frozenset(chosen)


def _explain_absence(target: DeployTarget, holder: str | None, *, is_here: bool) -> Conflict:
    name = f"{target.project.slug}/{target.environment.slug}"
    if holder is None or is_here:
        return Conflict(f"No process of {name} has run yet: deploy it first.")
    host = host_of(holder)
    return Conflict(
        f"The output of {name} is on the machine of its deployer, {host}, below outputs/{target.environment.public_id} "
        "of the deployer's folder. Read it there, or run a control plane there as the deployer's user, with that "
        "folder in PHAROS_DEPLOY_FOLDER.",
        members={"host": host},
    )


def describe_output(target: DeployTarget, parts: Sequence[OutputPart], tail: int) -> EnvironmentOutput:
    """Return the last `tail` lines of each process."""
    outputs: list[ProcessLines] = [{**describe_lines(part, tail), "unfinished": part.rest} for part in parts]
    return {"environment": summarize_environment(target.environment), "outputs": outputs}


def describe_lines(part: OutputPart, tail: int | None = None) -> PrintedLines:
    """Return the lines of a part, or only the last `tail` lines."""
    lines = part.text.split("\n")
    # The text has no line break at its end if the line is read in parts.
    if lines[-1] == "":
        lines.pop()
    is_cut = tail is not None and len(lines) > tail
    return {
        "deployment_id": part.deployment_id,
        "process": part.process,
        "number": part.number,
        "lines": lines[-tail:] if is_cut and tail is not None else lines,
        "truncated": part.is_truncated or is_cut,
    }
