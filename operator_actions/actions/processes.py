"""What an operator sees of what runs: processes, and what they print."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select

from control_domain.process_output import OutputPart, OutputUnreadable, ProcessOutput
from control_domain.projects.find import DeployTarget
from control_domain.projects.resolve import resolve_environment, resolve_target
from control_domain.refusals import Refused
from control_domain.tables.runtime import EnvironmentLease, Instance
from operator_actions.actions.engines import Action, Engines, Params
from operator_actions.actions.list_processes import list_runtime


async def _list(engines: Engines, params: Params, now: datetime) -> Any:
    """See `list_runtime`. `params`: environment_id, which may be left out."""
    async with engines.sessions() as session:
        called = params.get("environment_id")
        numbers = None if called is None else [(await resolve_environment(session, str(called))).id]
        return list(await list_runtime(session, numbers))


async def _read_output(engines: Engines, params: Params, now: datetime) -> Any:
    """What the processes of an environment print. `params`: environment_id, offsets (by an output's key, `7/web.1`:
    what was read of it; one without is read from its end)."""
    offsets = {str(name): max(0, int(offset)) for name, offset in (params.get("offsets") or {}).items()}
    async with engines.sessions() as session:
        target = await resolve_target(session, params.get("environment_id"))
        lease = await session.get(EnvironmentLease, target.environment.id)
        outputs = None
        if engines.process_output is not None:
            columns = (Instance.deployment_id, Instance.process, Instance.number)
            mine = Instance.environment_id == target.environment.id
            # What nothing writes to any more is of no interest, unless there is nothing else.
            running: dict[int, set[str]] = {}
            for deployment_id, process, number in await session.execute(select(*columns).where(mine)):
                running.setdefault(deployment_id, set()).add(f"{process}.{number}")
            try:
                outputs = await engines.process_output.read(target.environment.public_id, offsets, running)
            except OutputUnreadable as error:
                raise Refused(str(error)) from error
        if outputs is None:
            raise _elsewhere(target, lease, engines.process_output)
    called = f"{target.project.slug}/{target.environment.slug}"
    return {"environment": called, "outputs": [_describe(output) for output in outputs]}


def _elsewhere(target: DeployTarget, lease: EnvironmentLease | None, output: ProcessOutput | None) -> Refused:
    """Why there is no output here, and where it is."""
    called = f"{target.project.slug}/{target.environment.slug}"
    is_here = output is not None and lease is not None and output.belongs_to(lease.holder_name)
    if lease is None or is_here:
        return Refused(f"Nothing of {called} has run yet: `pharos deploy {called}` deploys it.")
    return Refused(
        f"The output of {called} lies with its deployer. Ask on {lease.holder_name}, with PHAROS_DEPLOY_FOLDER set."
    )


def _describe(output: OutputPart) -> dict[str, Any]:
    return {
        "key": output.key,
        "name": output.name,
        "process": output.process,
        "number": output.number,
        "offset": output.offset,
        "text": output.text,
        "rest": output.rest,
        "cut": output.is_truncated,
    }


ACTIONS: Mapping[str, Action] = {
    "runtime/list": _list,
    "runtime/output": _read_output,
}
