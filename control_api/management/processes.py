"""The processes of an environment, and their output."""

from typing import Annotated

from fastapi import Response
from msgspec import Meta, Struct

from control_api.live_logs.log_streams import Reader
from control_api.live_logs.stream_log import accepts_event_stream
from control_api.live_logs.stream_output import FollowedOutput, stream_output
from control_api.operations.access import At, at
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.deployments.read_output import (
    EnvironmentOutput,
    OutputFilter,
    describe_output,
    find_holder,
    list_running,
    read_output,
)
from control_domain.deployments.runtime import (
    EnvironmentProcesses,
    describe_processes,
    read_instances,
    read_runtimes,
)
from control_domain.projects.find import DeployTarget, find_environment
from pipeline_contracts.errors import Conflict, NotFound

operations = OperationRouter("Deploy")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:read", Right.READ)]


class OutputQuery(Struct, kw_only=True):
    """The processes to read, and the number of lines."""

    process: Annotated[str | None, Meta(description="Only the process of this name.")] = None
    number: Annotated[
        Annotated[int, Meta(ge=1, le=999_999)] | None, Meta(description="Only the instance of this number.")
    ] = None
    tail: Annotated[
        int,
        Meta(ge=1, le=1000, description="The largest number of last lines of each process to return."),
    ] = 100


@operations.get("/v1/environments/{environment}/processes")
async def read_processes(at: _Read) -> EnvironmentProcesses:
    """Read the processes of an environment.

    The live release, the active deployment, the deployer and the processes, from the deployer's last report.
    """
    environment = at.found.environment
    runtime = (await read_runtimes(at.session, [environment])).get(environment.id)
    if runtime is None:
        raise NotFound("The environment was removed while the request ran.")
    instances = await read_instances(at.session, [environment.id])
    return describe_processes(runtime, instances.get(environment.id, ()))


@operations.get(
    "/v1/environments/{environment}/processes/output",
    streams=True,
    answer=EnvironmentOutput,
    problems=[Conflict],
)
async def read_process_output(
    at: _Read, filters: Annotated[OutputQuery, query(OutputQuery)]
) -> EnvironmentOutput | Response:
    """Read the output of an environment's processes.

    The last lines of the running processes or, if none runs, of the processes of the newest deployment. With `Accept:
    text/event-stream`, these lines and then each new line: an event `output` has lines of one process. Events
    `position` have the ID with which `Last-Event-ID` continues the stream without repeating lines. A stream ends after
    15 minutes. An account may have 16 streams at once, a person 8.

    409 if nothing has run yet, and if the output is on another machine than this control plane, which `host` names.
    """
    wanted = OutputFilter(filters.process, filters.number)
    output = at.request.app.state.process_output
    holder = await find_holder(at.session, at.found.environment)
    running = await list_running(at.session, at.found.environment.id)
    await at.end_transaction()
    parts = await read_output(output, at.found, holder, running, {}, wanted)
    if accepts_event_stream(at.request):
        followed = FollowedOutput(at.found, Reader(at.account.id, at.caller.person.id), wanted, filters.tail)
        return stream_output(at.request, at.make_reader_check(), followed)
    return describe_output(at.found, parts, filters.tail)
