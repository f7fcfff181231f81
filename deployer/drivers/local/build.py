"""Builds an artefact on this machine, and runs the steps of a workflow."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from control_api.workflows.document import Steps, WorkflowDocument
from control_api.workflows.faults import DocumentFault
from control_api.workflows.read_workflow import read_workflow
from deployer.checkout.check_out import check_out
from deployer.checkout.failures import CheckOutFailed
from deployer.drivers.interface import Source, Tenancy, WorkFailed, WorkLog
from deployer.drivers.local.folders import Folders
from deployer.drivers.local.read_tree_file import NotAFile, read_tree_file
from deployer.processes.confinement import Confinement, Limits
from deployer.processes.run_step import StepFailed, StepTimedOut, run_step
from pipeline_contracts.deploy_states import DeploymentStep

OWN_DOCUMENT = "pharos.yaml"
"""Where a repository has its workflow document, for projects that are given none."""
_MOST_CHARACTERS = 50_000


class Builder:
    """Runs what builds, as a user of its own."""

    def __init__(self, folders: Folders, limits: Limits, hidden: tuple[Path, ...]) -> None:
        self._folders = folders
        self._limits = limits
        self._hidden = hidden

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: WorkLog
    ) -> tuple[str, WorkflowDocument]:
        """The name of the artefact, and the document that it was built by. Raises `WorkFailed`; then, and when it is
        cut short, nothing is left of it."""
        name = str(source.deployment_id)
        folder = await self._folders.fresh_artefact(name)
        try:
            workflow = await self._build_in(folder, tenancy, source, variables, log)
            await self._folders.seal(folder, self._folders.builder(tenancy))
        except CheckOutFailed as error:
            await self._folders.remove(folder)
            raise WorkFailed(str(error)) from error
        except BaseException:
            await self._folders.remove(folder)
            raise
        return name, workflow

    async def _build_in(
        self,
        folder: Path,
        tenancy: Tenancy,
        source: Source,
        variables: Mapping[str, str],
        log: WorkLog,
    ) -> WorkflowDocument:
        owner = self._folders.builder(tenancy)

        async def as_owner(command: str) -> None:
            await self._run(command, {}, folder, tenancy, source.deployment_id, 600.0, log, "build")

        async def hand_over(path: Path) -> None:
            await self._folders.hand_over(path, owner)

        async def on_line(line: str) -> None:
            await log.write("stdout", f"{line}\n".encode())

        await log.say(f"Checks out {source.revision}.")
        try:
            await check_out(
                source.url,
                source.revision,
                source.ref,
                folder,
                as_owner=as_owner,
                hand_over=hand_over,
                on_line=on_line,
                mark=f"{self._folders.identity.id}/git/{source.deployment_id}",
            )
        except StepFailed as error:
            raise WorkFailed(f"The check-out {error}.") from error
        workflow = source.workflow
        if workflow is None:
            workflow = await asyncio.to_thread(_read_own, folder)
        await log.begin(DeploymentStep.BUILD)
        await self.run_steps("build", workflow.build, variables, folder, tenancy, source.deployment_id, log)
        return workflow

    async def run_steps(
        self,
        kind: Literal["build", "release"],
        steps: Steps,
        variables: Mapping[str, str],
        folder: Path,
        tenancy: Tenancy,
        deployment_id: int,
        log: WorkLog,
    ) -> None:
        """Run the steps one after the other, in the time that all of them have. Raises `WorkFailed`.

        Build steps may write the folder, as the builder. Release steps run as the application does: with its user, its
        home and a folder that is only read. What a migration writes is what the application finds.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + steps.timeout_seconds
        for number, step in enumerate(steps.steps, 1):
            told = f"{kind.capitalize()} step {number} of {len(steps.steps)}"
            await log.say(f"{told}: {step}")
            left = max(0.1, ends_at - loop.time())
            try:
                await self._run(step, variables, folder, tenancy, deployment_id, left, log, kind)
            except StepTimedOut as error:
                raise WorkFailed(
                    f"{told} was ended: the {kind} steps together took longer than {steps.timeout_seconds} s."
                ) from error
            except StepFailed as error:
                raise WorkFailed(f"{told} {error}.") from error

    async def _run(
        self,
        command: str,
        variables: Mapping[str, str],
        folder: Path,
        tenancy: Tenancy,
        deployment_id: int,
        seconds: float,
        log: WorkLog,
        kind: Literal["build", "release"],
    ) -> None:
        is_build = kind == "build"
        owner = self._folders.builder(tenancy) if is_build else self._folders.runner(tenancy)
        confinement = Confinement(
            folder=folder,
            home=self._folders.home(tenancy, owner, "build" if is_build else "run"),
            owner=owner,
            limits=self._limits,
            is_writable=is_build,
            hidden=self._hidden,
        )
        await run_step(
            command,
            variables=variables,
            confinement=confinement,
            mark=f"{self._folders.identity.id}/step/{deployment_id}",
            timeout_seconds=seconds,
            on_output=log.write,
            # The live release runs as the same user as a release step.
            is_owner_alone=is_build,
        )


def _read_own(folder: Path) -> WorkflowDocument:
    """The document of the repository itself. Raises `WorkFailed`."""
    try:
        data = read_tree_file(folder / OWN_DOCUMENT, 4 * _MOST_CHARACTERS + 1)
    except NotAFile:
        raise WorkFailed(f"{OWN_DOCUMENT} is no file.") from None
    except OSError:
        raise WorkFailed(
            f"There is no workflow document: set one with `pharos workflow set`, or put {OWN_DOCUMENT} into the "
            "repository."
        ) from None
    try:
        return read_workflow(data.decode())
    except UnicodeDecodeError:
        raise WorkFailed(f"{OWN_DOCUMENT} is not written in UTF-8.") from None
    except DocumentFault as error:
        raise WorkFailed(f"The repository's {OWN_DOCUMENT} cannot be used: {error}") from error
