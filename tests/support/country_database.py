"""The database of countries by address, which `make country-database` brings from npm into `.engines/`."""

from pathlib import Path

from tests.support.engines import EngineMissing

_PATH = Path(__file__).parents[2] / ".engines" / "countries.mmdb"


def country_database() -> str:
    """Its path. Raises `EngineMissing`."""
    if not _PATH.exists():
        raise EngineMissing("There is no database of countries; `make country-database` brings it.")
    return str(_PATH)
