"""Countries of addresses, from a real database."""

import time
from pathlib import Path

import pytest

from ingest_edge.collect.countries import Countries, normalize_country
from pipeline_contracts.settings import BadSettings
from tests.ingest_edge.conftest import StartEdge
from tests.support.engines import country_database, skip_if_missing


@pytest.fixture
def database() -> str:
    with skip_if_missing():
        path = country_database()
    return path


@pytest.mark.parametrize(
    ("address", "country"),
    [
        ("8.8.8.8", "US"),
        ("193.75.75.75", "NO"),
        ("2a02:c0::1", "NO"),
        ("127.0.0.1", ""),
        ("10.1.2.3", ""),
        ("fd00::1", ""),
        ("not an address", ""),
        ("", ""),
    ],
)
def test_the_country_of_an_address(address: str, country: str, database: str) -> None:
    countries = Countries(database)
    try:
        assert countries.find(address) == country
    finally:
        countries.close()


def test_reports_the_age_of_the_database(database: str) -> None:
    countries = Countries(database)
    assert countries.built_at is not None and countries.built_at < time.time()
    assert countries.age_days() == pytest.approx((time.time() - countries.built_at) / 86_400, abs=0.01)
    countries.close()


def test_without_a_database_no_country_is_known() -> None:
    countries = Countries(None)
    assert (countries.find("8.8.8.8"), countries.age_days()) == ("", 0.0)


def test_invalid_database_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "bad.mmdb").write_bytes(b"nothing")
    for name in ("bad.mmdb", "missing.mmdb"):
        with pytest.raises(BadSettings, match="PHAROS_COUNTRY_DATABASE"):
            Countries(str(tmp_path / name))


async def test_edge_stores_the_visitors_country(database: str, start_edge: StartEdge) -> None:
    edge = await start_edge(trusted_proxies="127.0.0.1", country_database=database)
    tracker_id = await edge.open_site("https://shop.example")
    event = {"id": "0197a5c4-7a1e-7bb2-8a1f-0242ac120002", "type": "pageview", "path": "/"}
    await edge.collect(tracker_id, [event], X_Forwarded_For="193.75.75.75")
    ((_, collected),) = await edge.collected()
    assert collected.country == "NO"


@pytest.mark.parametrize(
    ("given", "code"), [("no", "NO"), ("XX", ""), ("T1", ""), ("NOR", ""), ("", ""), (None, ""), ("Ñ1", "")]
)
def test_a_code_is_two_letters(given: str | None, code: str) -> None:
    assert normalize_country(given) == code
