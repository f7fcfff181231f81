"""Stands for the build's user: runs commands in the folder, and records their output."""

import asyncio
import os
import subprocess
from pathlib import Path

from deployer.checkout.check_out import check_out


class StepFailed(Exception):
    """Raised for a failed command, as by the deployer's `run_step`."""


class Owner:
    """The build's user, with a separate home. It is not the user of the tests if these run as root."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.number = 65_534 if os.getuid() == 0 else None
        self.commands: list[str] = []
        self.printed = ""
        self.lines: list[str] = []

    async def hand_over(self, folder: Path) -> None:
        assert folder == self.folder
        assert [path.name for path in folder.iterdir()] == [".git"]
        if self.number is not None:
            for path in (folder, *folder.rglob("*")):
                os.lchown(path, self.number, self.number)

    async def run(self, command: str) -> None:
        self.commands.append(command)
        run = await asyncio.to_thread(
            subprocess.run,
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                # Replaces /etc/gitconfig.
                "GIT_CONFIG_SYSTEM": str(self.home.parent / "gitconfig"),
            },
            user=self.number,
            capture_output=True,
            text=True,
        )
        self.printed += run.stdout + run.stderr
        if run.returncode:
            raise StepFailed(self.printed)

    async def log(self, line: str) -> None:
        self.lines.append(line)

    async def check_out(
        self, url: str, revision: str, ref: str | None = "main", seconds: float = 180
    ) -> tuple[str, str] | None:
        return await check_out(
            url,
            revision,
            ref,
            self.folder,
            as_owner=self.run,
            hand_over=self.hand_over,
            on_line=self.log,
            timeout_seconds=seconds,
        )

    def files(self) -> set[str]:
        paths = (path for path in self.folder.rglob("*") if not path.is_dir())
        return {str(path.relative_to(self.folder)) for path in paths if ".git" not in path.parts}
