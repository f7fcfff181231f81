"""The environment and the project of a command that names none, where there are several.

The first of these that decides:

1. `PHAROS_DEFAULT_ENVIRONMENT`, for example `shop/production`
2. the Git repository of the current folder, if exactly one project is connected to it: it decides the project

The repository is a weak hint: whoever made the folder wrote its `.git/config`. `Effect` says which commands follow it.

`PHAROS_ENVIRONMENT` has another meaning: deployed applications get it, and client libraries label telemetry with it.
"""

import os
import sys
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from operator_cli.api.client import Api
from operator_cli.api.problems import allow_missing_scope

VARIABLE: Final = "PHAROS_DEFAULT_ENVIRONMENT"

_GIT_SECONDS: Final = 5


class Effect(Enum):
    """What a command does in the environment or project, which decides the defaults that it takes."""

    READS = auto()
    """It changes nothing: it takes the variable, else the repository of the folder."""
    ADDS = auto()
    """It deploys, creates something, or can be undone by one command: it takes the variable, else the repository of the
    folder, and fails if they name different projects."""
    CHANGES = auto()
    """It changes or removes what exists: it takes the variable, and fails if the repository of the folder belongs to
    another project. It never takes the repository of the folder."""


def read_default_environment() -> str | None:
    """Return the value of the variable; None if it is unset or empty."""
    return os.environ.get(VARIABLE) or None


def find_project_of_folder(api: Api, folder: Path) -> str | None:
    """Return the ID of the project that is connected to the Git repository of a folder: to its path, or to its remote
    `origin`. Other remotes do not count, because a fork has the original as `upstream`.

    None if there is no repository, if no project or several projects are connected to it, or if the token may not read
    repositories. Raises `CommandFailed`.
    """
    urls = _list_urls(folder)
    if not urls:
        return None
    rows = allow_missing_scope(lambda: api.list_once("repositories")) or []
    found = {str(row["project"]["id"]) for row in rows if make_repository_key(str(row["url"])) in urls}
    return found.pop() if len(found) == 1 else None


def note_default(api: Api, path: str, reason: str) -> None:
    """Note on standard error which environment or project a command uses although its arguments do not name it."""
    if sys.stderr is not None and not api.is_quiet:
        print(f"pharos: Using {path} ({reason}).", file=sys.stderr)


def _list_urls(folder: Path) -> frozenset[str]:
    """Return the keys of the repository that contains the folder: of its path, and of its remote `origin`."""
    # Git reads the configuration, because `.git` is a file in worktrees and submodules.
    top = _run_git(folder, "rev-parse", "--show-toplevel")
    if not top:
        return frozenset()
    # Git fetches from the first URL of a remote that has several.
    origin = _run_git(folder, "config", "--get-all", "remote.origin.url")[:1]
    return frozenset(make_repository_key(url) for url in (top[0], *origin))


def _run_git(folder: Path, *arguments: str) -> Sequence[str]:
    """Return the lines that Git prints, none if it fails."""
    # Imported here: most commands need no Git.
    import subprocess

    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()
    return done.stdout.splitlines() if done.returncode == 0 else ()


def make_repository_key(url: str) -> str:
    """Return a text that is the same for all URLs of a repository: `git@github.com:Acme/shop.git` and
    `https://github.com/acme/shop` are `github.com/acme/shop`. For a folder it is the path without symbolic links."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if parts.scheme == "file" or url.startswith("/"):
        path = unquote(parts.path) if parts.scheme == "file" else url
        return os.path.realpath(path)
    if "://" in url:
        host, path = parts.hostname or "", parts.path
    else:
        # `git@host:path`, as scp writes it.
        host, _, path = url.rpartition("@")[2].partition(":")
    return f"{host}/{path.strip('/').removesuffix('.git')}".lower()
