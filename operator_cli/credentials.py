"""The credentials file that `pharos up` writes into its data folder."""

import argparse
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from operator_cli.errors import CommandFailed

DEFAULT_DATA = Path(".pharos")


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--data DIR`."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_DATA,
        metavar="DIR",
        help="data folder of `pharos up` (./.pharos)",
    )


def read_credentials(data: Path) -> dict[str, Any]:
    """Return the content of `DIR/credentials.json`. Raises `CommandFailed`."""
    path = data / "credentials.json"
    try:
        credentials = json.loads(path.read_text())
    except FileNotFoundError:
        raise CommandFailed(
            f"{path} does not exist. Start `pharos up` first, or name its folder with --data."
        ) from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        credentials = None
    if not isinstance(credentials, dict):
        raise CommandFailed(
            f"{path} is damaged. Delete it and restart `pharos up`, which creates a new token and a new key."
        )
    return credentials


def get_ingest_access(credentials: Mapping[str, Any], data: Path) -> tuple[str, str]:
    """Return the base URL, which ends in `/api`, and the ingest key of the credentials. Raises `CommandFailed`."""
    file = data / "credentials.json"
    try:
        base_url, key = credentials["base_url"], credentials["ingest_key"]
    except (KeyError, TypeError):
        raise CommandFailed(f"{file} has no base_url or no ingest_key.") from None
    return check_url(str(base_url)), check_key(str(key), file)


def check_key(key: str, file: Path) -> str:
    """Return the ingest key of `file`. Raises `CommandFailed`, without the key, if a header cannot contain it."""
    if not key or not key.isascii() or not key.isprintable():
        raise CommandFailed(f"{file} holds no key.")
    return key


def check_url(url: str) -> str:
    """Return the API root at this address. Raises `CommandFailed` if it is not an HTTP or HTTPS address."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise CommandFailed(f"{url} is not an address: {error}") from None
    if parts.username is not None or parts.query or parts.fragment:
        # Do not show the address, which may contain a password.
        raise CommandFailed("The address has a user, a query or a fragment. Remove that part.")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandFailed(f"{url} is not an address like https://pharos.example/api.")
    return append_api_root(url)


def append_api_root(url: str) -> str:
    """Return the address with `/api` at the end, which `url` may have already."""
    root = url.strip().rstrip("/")
    return root if not root or root.endswith("/api") else f"{root}/api"


def save_repository(data: Path, repository: Mapping[str, Any], project_id: str, *, is_new: bool) -> None:
    """Save the `id`, `kind` and webhook `secret` of a project's repository in the credentials.

    A repository that is not new is saved only if the credentials contain it already. The key `repository` is for the
    project of the credentials, `repositories` for other projects by ID. Raises `CommandFailed`.
    """
    # Imported here because it is slow.
    from control_domain.first_account.account import write_private

    path = data / "credentials.json"
    with _locked_folder(data):
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
    """Return the credentials with this repository; None if it is not new and they do not contain it."""
    other_repositories = credentials.get("repositories")
    other_repositories = other_repositories if isinstance(other_repositories, dict) else {}
    own = credentials.get("repository")
    # Credentials of an older version may have the repository of another project here, which stays here.
    is_own = credentials.get("project_id") == project_id or _has_same_id(own, repository)
    if not is_new and not _has_same_id(own if is_own else other_repositories.get(project_id), repository):
        return None
    if is_own:
        return {**credentials, "repository": dict(repository)}
    return {**credentials, "repositories": {**other_repositories, project_id: dict(repository)}}


def _has_same_id(known: Any, repository: Mapping[str, Any]) -> bool:
    return isinstance(known, dict) and known.get("id") == repository["id"]


@contextmanager
def _locked_folder(data: Path) -> Iterator[None]:
    """Lock the folder against other commands that read and rewrite its credentials."""
    try:
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        # If the folder is missing, reading the credentials reports it.
        yield
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
