"""Stores salts in a file in the data folder, so that a restart keeps them. Only the owner of the file can
read it."""

import json
import os
import secrets
from pathlib import Path

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import DAY_MS
from storage_backends.salts.interface import LIFETIME_MS, SALT_BYTES


class FileSalts:
    """`Salts` in a JSON file `{day: salt in hex}`, which is replaced as a whole. Only one process may use
    the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._salts = _read(path)

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        if day * DAY_MS + LIFETIME_MS <= now_ms:
            return None
        if day not in self._salts:
            # This blocks the event loop, but only for a small file and once a day.
            self._write({**self._salts, day: offer or secrets.token_bytes(SALT_BYTES)})
        return self._salts[day]

    async def delete_expired(self, now_ms: int) -> None:
        remaining = {day: salt for day, salt in self._salts.items() if day * DAY_MS + LIFETIME_MS > now_ms}
        if len(remaining) < len(self._salts):
            self._write(remaining)

    async def close(self) -> None:
        """Do nothing, because no file stays open."""

    def _write(self, salts: dict[int, bytes]) -> None:
        new = self._path.with_suffix(".new")
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump({str(day): salt.hex() for day, salt in salts.items()}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
        except OSError as error:
            raise StorageUnavailable(f"{self._path} cannot be written: {error}") from error
        self._salts = salts


def _read(path: Path) -> dict[int, bytes]:
    try:
        stored = json.loads(path.read_text())
        return {int(day): bytes.fromhex(salt) for day, salt in stored.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StorageUnavailable(
            f"{path} cannot be read: {error}. Without this file, today's visitors are counted again."
        ) from error
