"""Names for completion: of projects, environments and other objects of the installation.

A shell waits for them while a person types, so they are read with a short time limit and cached for some seconds.
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from operator_cli.api.client import Api
from operator_cli.api.profiles import read_profiles
from operator_cli.api.target import Target, find_target

_REQUEST_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 20.0
_MAX_NAMES: Final = 500

Rows = Sequence[Mapping[str, Any]]


def _slugs(rows: Rows) -> list[str]:
    return [row["slug"] for row in rows]


def _names(rows: Rows) -> list[str]:
    return [row["name"] for row in rows]


def _emails(rows: Rows) -> list[str]:
    return [row["email"] for row in rows]


def _environments(projects: Rows) -> list[str]:
    """Return the unique slugs of environments, and `PROJECT/ENVIRONMENT` of all environments."""
    paths = [(project["slug"], each["slug"]) for project in projects for each in project["environments"]]
    slugs = [slug for _, slug in paths]
    return [slug for slug in slugs if slugs.count(slug) == 1] + ["/".join(path) for path in paths]


_LISTS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Rows], list[str]]]]] = {
    "project": (("projects",), _slugs),
    "environment": (("projects",), _environments),
    "person": (("people",), _emails),
    "heartbeat": (("monitors", "heartbeats"), _names),
    "queue": (("monitors", "queues"), _names),
    "site": (("analytics", "sites"), _names),
    "channel": (("notification-channels",), _names),
    "rule": (("notification-rules",), _names),
    "threshold": (("thresholds",), _names),
}
"""The list of the API for each kind of name, and the names in its rows."""


def read_names(kind: str, *, profile: str | None, data: str | None) -> Sequence[str]:
    """Return the names of a kind, none for an unknown one. Raises `CommandFailed` and `OSError`.

    `profile` and `data` are the flags of the command, if it has them.
    """
    if kind == "profile":
        return sorted(read_profiles().by_name)
    if kind not in _LISTS:
        return ()
    path, names = _LISTS[kind]
    arguments = argparse.Namespace(profile=profile, data=None if data is None else Path(data))
    target = find_target(arguments, announces=False)
    file = _cache_file(target, kind)
    if (kept := _read_kept(file)) is not None:
        return kept
    with Api(target, seconds=_REQUEST_SECONDS) as api:
        found = names(api.get(*path))[:_MAX_NAMES]
    _keep(file, found)
    return found


def _cache_file(target: Target, kind: str) -> Path:
    """Return the file for the names that this credential may see."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    of = hashlib.sha256(f"{target.base_url}\0{target.token}".encode()).hexdigest()[:16]
    return root / "pharos" / f"{kind}-{of}.json"


def _read_kept(file: Path) -> list[str] | None:
    try:
        if not 0 <= time.time() - file.stat().st_mtime <= _KEPT_SECONDS:
            return None
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, list) else None


def _keep(file: Path, names: Sequence[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Write and rename, because two shells may complete at the same time.
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        json.dump(list(names), opened)
    os.replace(new, file)
