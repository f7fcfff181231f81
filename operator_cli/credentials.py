"""The credentials that a running `pharos up` has written, for commands that talk to it."""

import argparse
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from operator_cli.failure import CommandFailed

DEFAULT_DATA = Path(".pharos")


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """`--data DIR`, the same for every command."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_DATA,
        metavar="DIR",
        help="data folder of `pharos up` (./.pharos)",
    )


def read_credentials(data: Path) -> dict[str, Any]:
    """What `DIR/credentials.json` holds."""
    path = data / "credentials.json"
    try:
        credentials: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise CommandFailed(
            f"{path} is not there. Start `pharos up` first, or name its folder with --data."
        ) from None
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}") from None
    return credentials


def ingest_access(credentials: Mapping[str, Any], data: Path) -> tuple[str, str]:
    """Return base URL (it ends in `/api`) and ingest key of the credentials of `data`. Raises `CommandFailed`."""
    file = data / "credentials.json"
    try:
        base_url, key = credentials["base_url"], credentials["ingest_key"]
    except (KeyError, TypeError):
        raise CommandFailed(f"{file} has no base_url or no ingest_key.") from None
    return check_url(str(base_url)), check_key(str(key), file)


def check_key(key: str, file: Path) -> str:
    """Return the ingest key of `file`. Raises `CommandFailed`, without the key, if no header can carry it."""
    if not key or not key.isascii() or not key.isprintable():
        raise CommandFailed(f"{file} holds no key.")
    return key


def check_url(url: str) -> str:
    """Return the API root at this address. Raises `CommandFailed` if it is not one of HTTP or HTTPS."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise CommandFailed(f"{url} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandFailed(f"{url} is not an address like https://pharos.example/api.")
    return api_root(url)


def api_root(url: str) -> str:
    """Return the address of the API, which ends in `/api`, of a Pharos whose address was given with or without that."""
    root = url.strip().rstrip("/")
    return root if not root or root.endswith("/api") else f"{root}/api"


def base_url_of(data: Path) -> str:
    """The API root that the credentials name, or how to write it where there are none."""
    try:
        return str(read_credentials(data)["base_url"])
    except (CommandFailed, KeyError):
        return "https://your-host/api"


def keep_repository(data: Path, repository: Mapping[str, Any], project_id: str, *, is_new: bool) -> None:
    """Write the `id`, `kind` and webhook `secret` of a project's repository into the credentials, next to what they
    hold; of one that is not new only where they have it already. Raises `CommandFailed`.

    `repository` is the one of the credentials' own project, `repositories` has those of others by the project's ID.
    """
    # Only here: it takes its time to import.
    from control_domain.first_account.account import write_private

    path = data / "credentials.json"
    with _only_writer(data):
        changed = _with_repository(read_credentials(data), repository, project_id, is_new=is_new)
        if changed is None:
            return
        try:
            write_private(path, json.dumps(changed, indent=2) + "\n")
        except OSError as error:
            raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None


def _with_repository(
    credentials: dict[str, Any], repository: Mapping[str, Any], project_id: str, *, is_new: bool
) -> dict[str, Any] | None:
    """The credentials with this repository; None where they are not about it."""
    of_others = credentials.get("repositories")
    of_others = of_others if isinstance(of_others, dict) else {}
    own = credentials.get("repository")
    # Credentials of an older version may have another project's repository in this place: it stays where it is.
    is_own = credentials.get("project_id") == project_id or _is_of(own, repository)
    if not is_new and not _is_of(own if is_own else of_others.get(project_id), repository):
        return None
    if is_own:
        return {**credentials, "repository": dict(repository)}
    return {**credentials, "repositories": {**of_others, project_id: dict(repository)}}


def _is_of(known: Any, repository: Mapping[str, Any]) -> bool:
    return isinstance(known, dict) and known.get("id") == repository["id"]


@contextmanager
def _only_writer(data: Path) -> Iterator[None]:
    """Hold off other commands that write into this folder: what one of them reads, it writes back."""
    try:
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        # Without the folder there are no credentials: reading them says so.
        yield
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
