"""Which country an address lies in: by a database of addresses, if there is one."""

import time
from pathlib import Path
from typing import Any

from pipeline_contracts.settings import BadSettings


class Countries:
    """Looks addresses up in a MaxMind DB file, which stays mapped in memory."""

    def __init__(self, path: str | None) -> None:
        self._reader: Any = None
        self.built_at: float | None = None
        """When the database was made, seconds since 1970; None without one."""
        if path is None:
            return
        import maxminddb

        try:
            self._reader = maxminddb.open_database(Path(path), maxminddb.MODE_AUTO)
        except (OSError, maxminddb.InvalidDatabaseError) as error:
            raise BadSettings(f"PHAROS_COUNTRY_DATABASE: {path} cannot be read: {error}") from error
        self.built_at = float(self._reader.metadata().build_epoch)

    def find(self, address: str) -> str:
        """The country's two letters (ISO 3166), empty where it is not known."""
        if self._reader is None:
            return ""
        try:
            found = self._reader.get(address)
        except ValueError:
            return ""
        return country_code(_code_in(found))

    def age_days(self) -> float:
        """Days since the database was made; 0 without one."""
        return 0.0 if self.built_at is None else (time.time() - self.built_at) / 86_400

    def close(self) -> None:
        """Unmap the file."""
        if self._reader is not None:
            self._reader.close()


def country_code(given: str | None) -> str:
    """Two letters in upper case; empty for anything else, and for what stands for no country (XX, T1 for Tor)."""
    if given is None or len(given) != 2 or not given.isascii() or not given.isalpha():
        return ""
    code = given.upper()
    return "" if code == "XX" else code


def _code_in(found: Any) -> str | None:
    """`{"country_code": "NO"}`, or `{"country": {"iso_code": "NO"}}`, as databases of several makers have it."""
    if not isinstance(found, dict):
        return None
    code = found.get("country_code")
    if code is None and isinstance(found.get("country"), dict):
        code = found["country"].get("iso_code")
    return code if isinstance(code, str) else None
