"""The folders of the local driver, and whose they are.

```
artefacts/<deployment>/     what was built: read-only for those who run it
homes/<environment>/build/  HOME of build steps: caches outlast a build
homes/<environment>/run/    HOME of release steps and of what runs: the only place where it may keep files
outputs/<environment>/<deployment>/     what its processes printed
sealing/<deployment>/       the output of a build while Pharos copies it
removed/                    what is being deleted
```
"""

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
from deployer.drivers.interface import Tenancy, WorkFailed
from deployer.identity import MOST_RANGES, USERS, Identity, NoMoreUsers
from deployer.processes.confinement import Owner
from deployer.processes.shielded import carry_out
from deployer.trees.remove_tree import remove_tree
from deployer.trees.seal_tree import ForeignFile, seal_tree
from deployer.trees.walk_tree import chown_tree, lock_down_tree
from deployer.uncut import uncut

# Of an environment two users: what it builds cannot touch what it runs.
_USERS_EACH = 2
_OUTPUTS_KEPT = 5
_SEAL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Folders:
    """All of them, under one root."""

    identity: Identity

    @property
    def root(self) -> Path:
        """Of the deployer."""
        return self.identity.folder

    def builder(self, tenancy: Tenancy) -> Owner | None:
        """Who builds; None: Pharos does not run as root, and gives nobody other rights than its own."""
        return self._owner(tenancy, 0)

    def runner(self, tenancy: Tenancy) -> Owner | None:
        """Who runs. Both read what is their project's: a release may be promoted to another environment of it."""
        return self._owner(tenancy, 1)

    def _owner(self, tenancy: Tenancy, which: int) -> Owner | None:
        if os.geteuid() != 0:
            return None
        try:
            uid = self.identity.take_user(_USERS_EACH * tenancy.environment_id + which)
            return Owner(uid, self.identity.take_user(tenancy.project_id))
        except NoMoreUsers as error:
            most = MOST_RANGES * USERS // _USERS_EACH
            raise WorkFailed(
                f"Environment {tenancy.environment_id:,} of project {tenancy.project_id:,} cannot run here: a deployer "
                f"has users for environments up to number {most - 1:,}. Use another installation."
            ) from error

    def runner_uid(self, environment_id: int) -> int | None:
        """As which user an environment runs; None if none of its processes ever ran."""
        if os.geteuid() != 0:
            return os.geteuid()
        return self.identity.find_user(_USERS_EACH * environment_id + 1)

    def artefact(self, name: str) -> Path:
        """Where an artefact is. `name` is one that this driver gave."""
        return self.root / "artefacts" / name

    def output(self, tenancy: Tenancy, deployment_id: int, process: str, number: int) -> Path:
        """What one process of a release prints: each deployment has files of its own."""
        folder = self.root / "outputs" / tenancy.public_id / str(deployment_id)
        # Without its output a process runs all the same; one that cannot be started says why.
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / f"{process}.{number}.log"

    def old_outputs(self, environments: Iterable[str], running: set[int]) -> list[Path]:
        """What deployments have printed before the newest few of each environment, unless they run."""
        old = []
        for environment in environments:
            names = [name for name in self.names(f"outputs/{environment}") if name.isdecimal()]
            newest_first = sorted(map(int, names), reverse=True)
            old += [
                self.root / "outputs" / environment / str(number)
                for number in newest_first[_OUTPUTS_KEPT:]
                if number not in running
            ]
        return old

    def home_path(self, tenancy: Tenancy, use: str) -> Path:
        """Where HOME of `build` or `run` is."""
        return self.root / "homes" / tenancy.public_id / use

    def home(self, tenancy: Tenancy, owner: Owner | None, use: str) -> Path:
        """HOME of `build` or `run`, made where it is not there."""
        home = self.home_path(tenancy, use)
        for folder in (self.root / "homes", home.parent):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711)
        home.mkdir(exist_ok=True)
        home.chmod(0o700)
        if owner is not None:
            os.chown(home, owner.uid, owner.gid)
        return home

    async def fresh_artefact(self, name: str) -> Path:
        """An empty folder for a build."""
        folder = self.artefact(name)
        await self.remove(folder)
        folder.parent.mkdir(exist_ok=True)
        folder.parent.chmod(0o711)
        folder.mkdir(mode=0o700)
        return folder

    @uncut
    async def hand_over(self, folder: Path, owner: Owner | None) -> None:
        """Give the tree to whoever builds in it."""
        if owner is not None:
            await asyncio.to_thread(chown_tree, folder, owner)

    async def seal(self, folder: Path, owner: Owner | None) -> None:
        """Copy the tree, without `.git`, into new files that nobody can change, not even through a descriptor that a
        build left open. Raises `WorkFailed`; the caller then removes the remaining files."""
        stop = Event()
        sealing = asyncio.ensure_future(asyncio.to_thread(self._seal, folder, owner, stop))
        try:
            await asyncio.shield(sealing)
        finally:
            stop.set()
            await carry_out(asyncio.wait({sealing}))

    def _seal(self, folder: Path, owner: Owner | None, stop: Event) -> None:
        ends_at = time.monotonic() + _SEAL_SECONDS

        def check() -> None:
            if stop.is_set() or time.monotonic() > ends_at:
                raise WorkFailed(
                    f"What was built could not be copied within {_SEAL_SECONDS} s: have the build remove what the "
                    "release does not need."
                )

        work = self.root / "sealing" / folder.name
        try:
            remove_tree(work)
            work.parent.mkdir(exist_ok=True, mode=0o700)
            work.mkdir(mode=0o700)
            # A folder whose mode excludes its own user cannot be moved.
            lock_down_tree(folder)
            # At the same path: without namespaces, programs of the build may contain the path.
            folder.rename(work / "tree")
            seal_tree(work, folder, owner, ".git", check)
        except ForeignFile as error:
            raise WorkFailed(
                f"What was built has {shorten(str(error))!r} of another user than the build's: a running application "
                "put it there."
            ) from error
        except OSError as error:
            raise WorkFailed(f"What was built could not be copied: {error.strerror}.") from error
        finally:
            remove_tree(work)

    def set_aside(self, folder: Path) -> None:
        """Have nobody find the tree any more: at once, however large it is. `remove_set_aside` deletes it."""
        aside = self.root / "removed"
        aside.mkdir(exist_ok=True, mode=0o700)
        try:
            folder.rename(aside / secrets.token_hex(8))
        except FileNotFoundError:
            return

    async def remove_set_aside(self) -> None:
        """Delete what was set aside, by an earlier process as well."""
        for name in self.names("removed"):
            await self.remove(self.root / "removed" / name)

    @uncut
    async def remove(self, folder: Path) -> None:
        """Delete a tree with any content, also while a tenant changes the tree."""
        await asyncio.to_thread(remove_tree, folder)

    def names(self, kind: str) -> list[str]:
        """Return the names of the entries under `artefacts`, `homes`, `outputs`, `sealing` or `removed`."""
        try:
            return os.listdir(self.root / kind)
        except FileNotFoundError:
            return []
