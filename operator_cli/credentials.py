"""The credentials that a running `pharos up` has written, for commands that talk to it."""

import argparse
import json
from collections.abc import Mapping
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
    """Return the base URL without a slash at its end. Raises `CommandFailed` if it is not one of HTTP or HTTPS."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise CommandFailed(f"{url} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandFailed(f"{url} is not an address like https://pharos.example/api.")
    return url.rstrip("/")


def base_url_of(data: Path) -> str:
    """The API root that the credentials name, or how to write it where there are none."""
    try:
        return str(read_credentials(data)["base_url"])
    except (CommandFailed, KeyError):
        return "https://your-host/api"


def keep_repository(data: Path, repository: Mapping[str, Any], *, is_new: bool) -> None:
    """Write the `id`, `kind` and webhook `secret` of a repository into the credentials, beside what they hold; of one
    that is not new only where they are about it already. Raises `CommandFailed`."""
    # Only here: it takes its time to import.
    from control_api.first_account import write_private

    credentials = read_credentials(data)
    known = credentials.get("repository")
    if not is_new and (not isinstance(known, dict) or known.get("id") != repository["id"]):
        return
    path = data / "credentials.json"
    try:
        write_private(path, json.dumps({**credentials, "repository": dict(repository)}, indent=2) + "\n")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None
