"""Settings from arguments and environment variables."""

from pharos_client.settings import read_settings


def test_the_key_of_the_environment_goes_to_no_other_server() -> None:
    known = {"PHAROS_URL": "https://pharos.example/api", "PHAROS_INGEST_KEY": "phr_ing_environment"}
    for url, key, variables, expected in (
        (None, None, known, "phr_ing_environment"),
        ("https://pharos.example", None, known, "phr_ing_environment"),
        ("https://other.example", None, known, ""),
        ("https://other.example", "phr_ing_own", known, "phr_ing_own"),
        ("https://phr_ing_url@other.example", None, known, "phr_ing_url"),
        ("https://other.example", None, {"PHAROS_INGEST_KEY": "phr_ing_environment"}, "phr_ing_environment"),
        ("https://other.example", None, {**known, "PHAROS_URL": "no address"}, ""),
    ):
        assert read_settings(url, key, variables=variables).key == expected
