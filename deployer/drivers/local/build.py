"""Builds artefacts, and runs the steps of a workflow."""

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from control_domain.documents.faults import DocumentFault
from control_domain.workflows.document import Steps, WorkflowDocument
from control_domain.workflows.read_workflow import read_workflow
from deployer.checkout.check_out import check_out
from deployer.checkout.failures import CheckOutFailed
from deployer.drivers.interface import DeployFailed, LogSink, Source, Tenancy
from deployer.drivers.local.folders import Folders
from deployer.processes.confinement import Confinement, Limits
from deployer.processes.run_step import StepFailed, StepTimedOut, run_step
from pipeline_contracts.deploy_states import DeploymentStep

REPOSITORY_DOCUMENT = "pharos.yaml"
"""The path of the workflow document in a repository. It is used for projects without a document of their own."""
_MAX_CHARACTERS = 50_000


class NotAFile(Exception):
    """The path is a folder, a link, a pipe, a socket or a device."""


class Builder:
    """Builds artefacts. The steps run as the build user of the environment."""

    def __init__(self, folders: Folders, limits: Limits, hidden: tuple[Path, ...]) -> None:
        self._folders = folders
        self._limits = limits
        self._hidden = hidden

    async def build(
        self, tenancy: Tenancy, source: Source, variables: Mapping[str, str], log: LogSink
    ) -> tuple[str, WorkflowDocument]:
        """Build an artefact. Return its name, and the workflow document that the build used. Raises `DeployFailed`.
        Leaves no files after a failure or a cancellation."""
        name = str(source.deployment_id)
        folder = await self._folders.create_artefact(name)
        try:
            workflow = await self._build_in(folder, tenancy, source, variables, log)
            await self._folders.seal(folder, self._folders.builder(tenancy))
        except CheckOutFailed as error:
            await self._folders.remove(folder)
            raise DeployFailed(str(error)) from error
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
        log: LogSink,
    ) -> WorkflowDocument:
        owner = self._folders.builder(tenancy)

        async def as_owner(command: str) -> None:
            await self._run(command, {}, folder, tenancy, source.deployment_id, 600.0, log, "build")

        async def hand_over(path: Path) -> None:
            await self._folders.hand_over(path, owner)

        async def on_line(line: str) -> None:
            await log.write("stdout", f"{line}\n".encode())

        await log.write_line(f"Checking out {source.revision}.")
        try:
            commit = await check_out(
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
            raise DeployFailed(f"The check-out {error}.") from error
        workflow = source.workflow
        if workflow is None:
            workflow = await asyncio.to_thread(_read_repository_document, folder)
        await log.begin_step(DeploymentStep.BUILD, commit)
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
        log: LogSink,
    ) -> None:
        """Run the steps one after the other, within their common time limit. Raises `DeployFailed`.

        Build steps run as the build user and can write to the folder. Release steps run like the application: with the
        same user and HOME and a read-only folder, so that the application finds the files that a migration writes.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + steps.timeout_seconds
        for number, step in enumerate(steps.steps, 1):
            title = f"{kind.capitalize()} step {number} of {len(steps.steps)}"
            await log.write_line(f"{title}: {step}")
            left = max(0.1, ends_at - loop.time())
            try:
                await self._run(step, variables, folder, tenancy, deployment_id, left, log, kind)
            except StepTimedOut as error:
                raise DeployFailed(
                    f"{title} was ended: the {kind} steps together took longer than {steps.timeout_seconds} s."
                ) from error
            except StepFailed as error:
                raise DeployFailed(f"{title} {error}.") from error

    async def _run(
        self,
        command: str,
        variables: Mapping[str, str],
        folder: Path,
        tenancy: Tenancy,
        deployment_id: int,
        seconds: float,
        log: LogSink,
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


def _read_repository_document(folder: Path) -> WorkflowDocument:
    """Return the workflow document in the checked-out repository. Raises `DeployFailed`."""
    try:
        data = read_tree_file(folder / REPOSITORY_DOCUMENT, 4 * _MAX_CHARACTERS + 1)
    except NotAFile:
        raise DeployFailed(f"{REPOSITORY_DOCUMENT} is no file.") from None
    except OSError:
        raise DeployFailed(
            f"There is no workflow document: set one with `pharos workflow set`, or put {REPOSITORY_DOCUMENT} into the "
            "repository."
        ) from None
    try:
        return read_workflow(data.decode())
    except UnicodeDecodeError:
        raise DeployFailed(f"{REPOSITORY_DOCUMENT} is not written in UTF-8.") from None
    except DocumentFault as error:
        raise DeployFailed(f"The repository's {REPOSITORY_DOCUMENT} cannot be used: {error}") from error


def read_tree_file(path: Path, max_bytes: int) -> bytes:
    """Return the first `max_bytes` of a regular file. Raises `NotAFile`, and `OSError` if the file cannot be read."""
    if path.is_symlink():
        # A link could lead to a file that this user may read, and the build may not.
        raise NotAFile
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotAFile
        data = bytearray()
        while len(data) < max_bytes and (part := os.read(handle, max_bytes - len(data))):
            data += part
        return bytes(data)
    finally:
        os.close(handle)
