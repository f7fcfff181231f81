"""A process of another user that holds descriptors of a build's folders and files."""

import os
import subprocess

from tests.deployer.processes.sandbox import PYTHON

BUILDER, ACCOMPLICE = 2_105_000_001, 2_105_000_002
"""Users without other processes."""


def attempt(code: str, *descriptors: int) -> str:
    """Run the statements as the accomplice, whose `fds` are the descriptors; return the name of the error, or ''."""
    script = f"import os\nfds = {list(descriptors)}\ntry:\n " + "\n ".join(code.splitlines())
    script += "\nexcept OSError as error:\n print(type(error).__name__, end='')"
    done = subprocess.run(
        [PYTHON, "-I", "-S", "-c", script],
        user=ACCOMPLICE,
        group=ACCOMPLICE,
        extra_groups=[],
        pass_fds=descriptors,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def chown_to_builder(folder: "os.PathLike[str]") -> None:
    """Make the builder the owner of a tree, and the tree writable for everybody."""
    for _, names, files, handle in os.fwalk(folder):
        for name in (*names, *files):
            os.chown(name, BUILDER, BUILDER, dir_fd=handle, follow_symlinks=False)
            if not os.path.islink(f"/proc/self/fd/{handle}/{name}"):
                os.chmod(name, 0o777, dir_fd=handle)
        os.fchown(handle, BUILDER, BUILDER)
        os.fchmod(handle, 0o777)
