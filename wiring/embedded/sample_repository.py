"""The Git repository of a first start, with a tiny application in it."""

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
from control_domain.refusals import Refused
from control_domain.repositories.urls import read_url
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
    """The credentials, here and in the data folder's file, with `repository` where the first project gets one.

    Its files are `data/repository.git`. Where git cannot make them there is none, and the log says why.
    """
    now = datetime.now(UTC)
    make = partial(asyncio.to_thread, _make_address, data / "repository.git", now)
    made = await ensure_first_repository(sessions, keys, credentials, make, now)
    whole = {**credentials, **made}
    if made:
        write_private(data / "credentials.json", json.dumps(whole, indent=2) + "\n")
    return whole


def _make_address(path: Path, now: datetime) -> str | None:
    path = path.absolute()
    try:
        url, _ = read_url(str(path))
        if not path.exists():
            _make_repository(path, now)
    except (Refused, OSError, subprocess.SubprocessError) as error:
        logger.warning("no sample repository was made: %s", _reason(error))
        return None
    return url


def _make_repository(path: Path, now: datetime) -> None:
    """Raises `OSError` and `SubprocessError`; then there is nothing at the path."""
    new = path.with_name(f"{path.name}.new")
    # Left by a process that was killed.
    shutil.rmtree(new, ignore_errors=True)
    try:
        _git("init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", str(new))
        _git(f"--git-dir={new}", "fast-import", "--quiet", "--done", given=b"".join(_commit(now)))
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _commit(now: datetime) -> Iterator[bytes]:
    """The one commit, as git-fast-import(1) takes it."""
    yield f"commit refs/heads/{BRANCH}\ncommitter {_AUTHOR} {int(now.timestamp())} +0000\n".encode()
    yield _data(_MESSAGE)
    for name in _FILES:
        yield f"M 100644 inline {name}\n".encode()
        yield _data((_APPLICATION / name).read_bytes())
    yield b"done\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _git(*arguments: str, given: bytes = b"") -> None:
    # Nothing of the user's settings counts: neither hooks nor another format.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    subprocess.run(
        ["git", *arguments],
        input=given,
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
