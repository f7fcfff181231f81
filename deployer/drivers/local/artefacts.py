"""Tracks which artefacts are in use, so that a sweep does not remove them."""

from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from deployer.drivers.interface import ReleaseUnusable, Run
from deployer.drivers.local.folders import Folders


class Artefacts:
    """Tracks the artefacts that one deployer is building or using."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.in_progress: set[str] = set()
        """Artefacts that are being built."""
        self._uses: Counter[str] = Counter()
        self._by_deployment: dict[int, str] = {}
        """The artefact of each deployment that was started, by deployment ID. A rollback uses an artefact that another
        deployment has built."""

    @contextmanager
    def building(self, name: str) -> Iterator[None]:
        """Mark the artefact as being built within the context."""
        self.in_progress.add(name)
        try:
            yield
        finally:
            self.in_progress.discard(name)

    @contextmanager
    def using(self, run: Run) -> Iterator[Path]:
        """Yield the folder of the run's artefact, which no sweep removes within the context. Raises
        `ReleaseUnusable`."""
        folder = self._folders.artefact(run.artefact)
        if not folder.is_dir():
            raise ReleaseUnusable(
                f"What was built for this release is not on {self._folders.identity.name}: deploy the revision again, "
                "or start the deployer with the folder that has it."
            )
        self._uses[run.artefact] += 1
        try:
            yield folder
        finally:
            self._uses[run.artefact] -= 1

    def add_started(self, run: Run) -> None:
        """Remember which artefact a started run uses."""
        self._by_deployment[run.deployment_id] = run.artefact

    def find_used(self, running: Set[int]) -> set[str]:
        """Return the artefacts in use, including those of the running deployments."""
        return {self._by_deployment.get(number, str(number)) for number in running} | set(+self._uses)

    def forget_ended(self, running: Set[int]) -> None:
        """Forget the artefacts of all deployments that do not run any more."""
        self._by_deployment = {
            number: name for number, name in self._by_deployment.items() if number in running
        }
