"""Takes the repository out of a work tree, once no step of the build needs it any more."""

import asyncio
import subprocess
from pathlib import Path


async def remove_history(folder: Path) -> None:
    """Remove `.git`, whatever the build made of it; a submodule's `.git` file stays, and leads nowhere then.

    Raises `OSError`. GNU rm follows no link, also if one is put in its way, and goes as deep as folders do.
    """
    history = folder / ".git"
    command = ["rm", "-rf", "--one-file-system", "--", str(history)]
    ended = await asyncio.to_thread(subprocess.run, command, stderr=subprocess.PIPE, check=False)
    if ended.returncode:
        raise OSError(f"{history} cannot be removed: {ended.stderr.decode('utf-8', 'replace')[:200].strip()}")
