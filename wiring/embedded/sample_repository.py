"""The sample Git repository of a first start, with a tiny application."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from control_domain.database.engine import Sessions
from control_domain.first_account.account import write_private
from control_domain.first_account.repository import BRANCH, ensure_first_repository
from control_domain.repositories.urls import BadUrl, read_url
from control_domain.sealing import SealingKeys

logger = logging.getLogger(__name__)

_APPLICATION = Path(__file__).parent / "sample_application"
_FILES = ("index.html", "pharos.yaml")
_AUTHOR = "Pharos <pharos@localhost>"
_MESSAGE = b"A page\n"
_GIT_SECONDS = 20


async def ensure_sample_repository(
    sessions: Sessions, keys: SealingKeys, credentials: Mapping[str, Any], data: Path
) -> dict[str, Any]:
    """Create `data/repository.git` and connect it to the first project, if the project has no repository.

    Returns the credentials, with `repository` if it was connected, and updates the file in the data folder. If git
    fails, no repository is created, and a warning gives the reason.
    """
    now = datetime.now(UTC)
    create = partial(asyncio.to_thread, _create_repository_url, data / "repository.git", now)
    added = await ensure_first_repository(sessions, keys, credentials, create, now)
    updated = {**credentials, **added}
    if added:
        write_private(data / "credentials.json", json.dumps(updated, indent=2) + "\n")
    return updated


def _create_repository_url(path: Path, now: datetime) -> str | None:
    path = path.absolute()
    try:
        url, _ = read_url(str(path))
        if not path.exists():
            _create_repository(path, now)
    except (BadUrl, OSError, subprocess.SubprocessError) as error:
        logger.warning("no sample repository was created: %s", _reason(error))
        return None
    return url


def _create_repository(path: Path, now: datetime) -> None:
    """Create the repository, or nothing if this raises `OSError` or `SubprocessError`."""
    new = path.with_name(f"{path.name}.new")
    # A killed process may have left it.
    shutil.rmtree(new, ignore_errors=True)
    try:
        _git("init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", str(new))
        _git(f"--git-dir={new}", "fast-import", "--quiet", "--done", stdin=b"".join(_commit(now)))
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _commit(now: datetime) -> Iterator[bytes]:
    """Yield the only commit in the format of git-fast-import(1)."""
    yield f"commit refs/heads/{BRANCH}\ncommitter {_AUTHOR} {int(now.timestamp())} +0000\n".encode()
    yield _data(_MESSAGE)
    for name in _FILES:
        yield f"M 100644 inline {name}\n".encode()
        yield _data((_APPLICATION / name).read_bytes())
    yield b"done\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _git(*arguments: str, stdin: bytes = b"") -> None:
    # Ignore the user's settings: no hooks, no other repository format.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    subprocess.run(
        ["git", *arguments],
        input=stdin,
        capture_output=True,
        check=True,
        cwd="/",
        env=environment,
        timeout=_GIT_SECONDS,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return bytes(error.stderr).decode("utf-8", "replace").strip() or str(error)
    return str(error)
