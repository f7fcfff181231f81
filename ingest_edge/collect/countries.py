"""Look up the country of an address in a database, if one is configured."""

import time
from pathlib import Path
from typing import Any

from pipeline_contracts.settings import BadSettings


class Countries:
    """Looks addresses up in a MaxMind DB file, which stays mapped in memory."""

    def __init__(self, path: str | None) -> None:
        self._reader: Any = None
        self.built_at: float | None = None
        """Time when the database was built, in seconds since 1970; None without a database."""
        if path is None:
            return
        import maxminddb

        try:
            self._reader = maxminddb.open_database(Path(path), maxminddb.MODE_AUTO)
        except (OSError, maxminddb.InvalidDatabaseError) as error:
            raise BadSettings(f"PHAROS_COUNTRY_DATABASE: {path} cannot be read: {error}") from error
        self.built_at = float(self._reader.metadata().build_epoch)

    def find(self, address: str) -> str:
        """Return the country's two letters (ISO 3166); empty if it is unknown."""
        if self._reader is None:
            return ""
        try:
            record = self._reader.get(address)
        except ValueError:
            return ""
        return normalize_country(_code_in(record))

    def age_days(self) -> float:
        """Return the days since the database was built; 0 without a database."""
        return 0.0 if self.built_at is None else (time.time() - self.built_at) / 86_400

    def close(self) -> None:
        """Unmap the file."""
        if self._reader is not None:
            self._reader.close()


def normalize_country(code: str | None) -> str:
    """Return the two letters in upper case; empty for other text and for codes of no country (XX, T1 for Tor)."""
    if code is None or len(code) != 2 or not code.isascii() or not code.isalpha():
        return ""
    upper = code.upper()
    return "" if upper == "XX" else upper


def _code_in(record: Any) -> str | None:
    """Return `NO` from `{"country_code": "NO"}` or `{"country": {"iso_code": "NO"}}`: the formats differ by vendor."""
    if not isinstance(record, dict):
        return None
    code = record.get("country_code")
    if code is None and isinstance(record.get("country"), dict):
        code = record["country"].get("iso_code")
    return code if isinstance(code, str) else None
