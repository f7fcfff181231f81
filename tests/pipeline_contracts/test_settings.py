"""Settings from variables: every invalid variable is reported."""

import pytest

from pipeline_contracts.read_settings import describe_settings, read_settings
from pipeline_contracts.settings import BadSettings, Settings

SECRET = "s" * 40
FILES = {"/secret": SECRET + "\n", "/short": "short"}


def read(**variables: str) -> Settings:
    def read_file(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(path)
        return FILES[path]

    return read_settings(variables, read_file)


def test_defaults_apply_without_variables() -> None:
    assert read(PATH="/bin", OTHER="x") == Settings()


def test_values_are_read_with_their_types() -> None:
    settings = read(PHAROS_INGEST_RATE="2.5", PHAROS_INGEST_BURST="7", PHAROS_LOG_LEVEL="debug")
    assert (settings.ingest_rate, settings.ingest_burst, settings.log_level) == (2.5, 7, "debug")


def test_a_secret_may_come_from_a_file() -> None:
    assert read(PHAROS_RECEIPT_KEY_FILE="/secret").receipt_key == SECRET


@pytest.mark.parametrize(
    "variables",
    [
        {"PHAROS_INGEST_RAT": "1"},
        {"PHAROS_INGEST_RATE": "fast"},
        {"PHAROS_INGEST_RATE": "nan"},
        {"PHAROS_INGEST_RATE": "inf"},
        {"PHAROS_INGEST_RATE": "0"},
        {"PHAROS_INGEST_BURST": "1.5"},
        {"PHAROS_INGEST_BURST": ""},
        {"PHAROS_MAX_BODY_BYTES": "-1"},
        {"PHAROS_LOG_LEVEL": "loud"},
        {"PHAROS_RECEIPT_KEY": "short"},
        {"PHAROS_RECEIPT_KEY_FILE": "/short"},
        {"PHAROS_RECEIPT_KEY_FILE": "/missing"},
        {"PHAROS_RECEIPT_KEY_FILE": "/secret", "PHAROS_RECEIPT_KEY": SECRET},
        {"PHAROS_LOG_LEVEL_FILE": "/secret"},
        {"PHAROS_METRICS_LISTEN": "9100"},
        {"PHAROS_METRICS_LISTEN": "127.0.0.1:99999"},
    ],
)
def test_a_bad_variable_stops_the_start_and_is_named(variables: dict[str, str]) -> None:
    with pytest.raises(BadSettings) as error:
        read(**variables)
    assert any(f"{name}:" in str(error.value) for name in variables)
    assert SECRET not in str(error.value)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(BadSettings) as error:
        read(PHAROS_A="1", PHAROS_B="2")
    assert "PHAROS_A:" in str(error.value)
    assert "PHAROS_B:" in str(error.value)


@pytest.mark.parametrize(
    "variable",
    [
        "PHAROS_TEST_NO_SKIP",
        "PHAROS_URL",
        "PHAROS_TOKEN",
        "PHAROS_TOKEN_FILE",
        "PHAROS_PROFILE",
        "PHAROS_INGEST_KEY",
        "PHAROS_QUEUES",
        "PHAROS_PING_URL",
    ],
)
def test_variables_of_the_test_suite_of_commands_and_of_clients_are_no_settings(variable: str) -> None:
    assert read(**{variable: "1"}) == Settings()


def test_every_setting_is_described() -> None:
    assert all(meaning for _, _, meaning in describe_settings())
    assert len(describe_settings()) == len(Settings.__dataclass_fields__)


def test_removed_setting_does_not_stop_the_start() -> None:
    assert read_settings({"PHAROS_MAX_JSON_DEPTH": "64"}, lambda path: "") == Settings()
