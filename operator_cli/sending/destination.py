"""Where to send: the address, the key, and what stands for them in the state of files."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from operator_cli.credentials import check_key, check_url, ingest_access, read_credentials
from operator_cli.failure import CommandFailed


@dataclass(frozen=True, slots=True)
class Destination:
    """`base_url` ends in `/api`. `name` stays the same as long as what was sent is known there."""

    base_url: str
    key: str = field(repr=False)
    name: str


def find_destination(data: Path, url: str | None, key_file: Path | None) -> Destination:
    """What the command line names, and for the rest the credentials of the `pharos up` on `data`.

    Raises `CommandFailed`.
    """
    if (url is None) != (key_file is None):
        # A key of one server must not go to another by mistake.
        raise CommandFailed("--url and --key-file go together.")
    if url is not None and key_file is not None:
        key = _read_key(key_file)
        base_url = check_url(url)
        digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        return Destination(base_url, key, f"{base_url} {digest}")
    credentials = read_credentials(data)
    base_url, key = ingest_access(credentials, data)
    # Its port and key may change from start to start; the environment stays.
    return Destination(base_url, key, str(credentials["environment_id"]))


def _read_key(file: Path) -> str:
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}") from None
    return check_key(key, file)
