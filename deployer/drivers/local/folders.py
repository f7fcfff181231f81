"""Knows the folders of the local driver, and the users who own them."""

import asyncio
import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from deployer.checkout.failures import shorten
from deployer.drivers.interface import DeployFailed, Tenancy, Traces
from deployer.drivers.local.layout import ARTEFACTS, HOMES, OUTPUTS, REMOVED, SEALING
from deployer.identity import MAX_RANGES, USERS_PER_RANGE, Identity, NoMoreUsers
from deployer.processes.confinement import Owner
from deployer.shield import shield, shielded
from deployer.trees.remove_tree import remove_tree
from deployer.trees.seal_tree import ForeignFile, seal_tree
from deployer.trees.walk_tree import chown_tree, lock_down_tree

# Each environment has two users, so that its builds cannot touch its running processes.
_USERS_EACH = 2
_RETAINED_OUTPUTS = 5
_SEAL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of one deployer, below one root folder."""

    identity: Identity

    @property
    def root(self) -> Path:
        """Return the root folder of the deployer."""
        return self.identity.folder

    def builder(self, tenancy: Tenancy) -> Owner | None:
        """Return the user that runs build steps. None if Pharos is not root: all processes then run as Pharos' own
        user."""
        return self._owner(tenancy, 0)

    def runner(self, tenancy: Tenancy) -> Owner | None:
        """Return the user that runs release steps and instances. Both users of an environment have the group of the
        project, because a release may be promoted to another environment of the project."""
        return self._owner(tenancy, 1)

    def _owner(self, tenancy: Tenancy, which: int) -> Owner | None:
        if os.geteuid() != 0:
            return None
        try:
            uid = self.identity.take_user(_USERS_EACH * tenancy.environment_id + which)
            return Owner(uid, self.identity.take_user(tenancy.project_id))
        except NoMoreUsers as error:
            most = MAX_RANGES * USERS_PER_RANGE // _USERS_EACH
            raise DeployFailed(
                f"Environment {tenancy.environment_id:,} of project {tenancy.project_id:,} cannot run here: a deployer "
                f"has users for environments up to number {most - 1:,}. Use another installation."
            ) from error

    def runner_uid(self, environment_id: int) -> int | None:
        """Return the ID of the user that runs an environment's processes. None if the environment never ran any."""
        if os.geteuid() != 0:
            return os.geteuid()
        return self.identity.find_user(_USERS_EACH * environment_id + 1)

    def artefact(self, name: str) -> Path:
        """Return the folder of an artefact. `name`: the name that the build returned."""
        return self.root / ARTEFACTS / name

    def output(self, tenancy: Tenancy, deployment_id: int, process: str, number: int) -> Path:
        """Return the file for the output of one process. Creates its folder if possible."""
        folder = self.root / OUTPUTS / tenancy.public_id / str(deployment_id)
        # If the folder cannot be created, the process runs without its output.
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / f"{process}.{number}.log"

    def find_old_outputs(self, environments: Iterable[str], running: set[int]) -> list[Path]:
        """Return the output folders of deployments that neither run nor are among the newest of their environment."""
        old = []
        for environment in environments:
            names = [name for name in self.names(f"{OUTPUTS}/{environment}") if name.isdecimal()]
            newest_first = sorted(map(int, names), reverse=True)
            old += [
                self.root / OUTPUTS / environment / str(number)
                for number in newest_first[_RETAINED_OUTPUTS:]
                if number not in running
            ]
        return old

    def home_path(self, tenancy: Tenancy, use: str) -> Path:
        """Return the path of HOME. `use`: `build` or `run`."""
        return self.root / HOMES / tenancy.public_id / use

    def home(self, tenancy: Tenancy, owner: Owner | None, use: str) -> Path:
        """Return HOME, and create the folder if necessary. `use`: `build` or `run`."""
        home = self.home_path(tenancy, use)
        for folder in (self.root / HOMES, home.parent):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711)
        home.mkdir(exist_ok=True)
        home.chmod(0o700)
        if owner is not None:
            os.chown(home, owner.uid, owner.gid)
        return home

    def find_home_fault(self, tenancy: Tenancy) -> str | None:
        """Return why no process of the environment can be started; None if its HOME is writable."""
        try:
            self.home(tenancy, self.runner(tenancy), "run")
        except OSError as error:
            return (
                f"The folder {error.filename} cannot be written ({error.strerror}), and what needs it cannot be "
                "started: make it writable for the deployer."
            )
        return None

    async def create_artefact(self, name: str) -> Path:
        """Create an empty folder for a build."""
        folder = self.artefact(name)
        await self.remove(folder)
        folder.parent.mkdir(exist_ok=True)
        folder.parent.chmod(0o711)
        folder.mkdir(mode=0o700)
        return folder

    @shielded
    async def hand_over(self, folder: Path, owner: Owner | None) -> None:
        """Make the build user the owner of the tree."""
        if owner is not None:
            await asyncio.to_thread(chown_tree, folder, owner)

    async def seal(self, folder: Path, owner: Owner | None) -> None:
        """Copy the tree, without `.git`, into new files that nobody can change, not even through a descriptor that a
        build left open. Raises `DeployFailed`; the caller then removes the remaining files."""
        stop = Event()
        sealing = asyncio.ensure_future(asyncio.to_thread(self._seal, folder, owner, stop))
        try:
            await asyncio.shield(sealing)
        finally:
            stop.set()
            await shield(asyncio.wait({sealing}))

    def _seal(self, folder: Path, owner: Owner | None, stop: Event) -> None:
        ends_at = time.monotonic() + _SEAL_SECONDS

        def check() -> None:
            if stop.is_set() or time.monotonic() > ends_at:
                raise DeployFailed(
                    f"What was built could not be copied within {_SEAL_SECONDS} s: have the build remove what the "
                    "release does not need."
                )

        work = self.root / SEALING / folder.name
        try:
            remove_tree(work)
            work.parent.mkdir(exist_ok=True, mode=0o700)
            work.mkdir(mode=0o700)
            # A folder whose mode excludes its own user cannot be moved.
            lock_down_tree(folder)
            # The sealed tree must have the same path: without namespaces, programs of the build may contain the path.
            folder.rename(work / "tree")
            seal_tree(work, folder, owner, ".git", check)
        except ForeignFile as error:
            raise DeployFailed(
                f"What was built has {shorten(str(error))!r} of another user than the build's: a running application "
                "put it there."
            ) from error
        except OSError as error:
            raise DeployFailed(f"What was built could not be copied: {error.strerror}.") from error
        finally:
            remove_tree(work)

    def set_aside(self, folder: Path) -> None:
        """Move the tree away at once, whatever its size. `remove_set_aside` deletes it later."""
        aside = self.root / REMOVED
        aside.mkdir(exist_ok=True, mode=0o700)
        try:
            folder.rename(aside / secrets.token_hex(8))
        except FileNotFoundError:
            return

    async def remove_set_aside(self) -> None:
        """Delete the trees that were set aside, also by a former process."""
        for name in self.names(REMOVED):
            await self.remove(self.root / REMOVED / name)

    @shielded
    async def remove(self, folder: Path) -> None:
        """Delete a tree, whatever it contains, even if a tenant changes it at the same time."""
        await asyncio.to_thread(remove_tree, folder)

    def names(self, subfolder: str) -> list[str]:
        """Return the names of the entries of a subfolder. Empty if the subfolder does not exist."""
        return _list_names(self.root / subfolder)


def read_traces(root: Path) -> Traces:
    """See `Handover`. `root`: the folder of the deployer."""
    # Every environment that ever ran has a home.
    environments = sorted(name for name in _list_names(root / HOMES) if name.startswith("env_"))
    deployments = (int(name) for name in _list_names(root / ARTEFACTS) if name.isdecimal())
    return Traces(environments, max(deployments, default=0))


def _list_names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
