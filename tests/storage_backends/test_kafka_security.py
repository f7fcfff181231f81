"""Brokers with authentication and TLS: their settings, against a real broker."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.read_settings import read_settings
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import read_topics
from tests.support.engines import EngineMissing, free_port, or_skip
from tests.support.kafka_broker import KafkaBroker, quick_start_options
from tests.support.log_under_test import write_and_read

_PROPERTIES = """\
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="broker" password="among-brokers" user_broker="among-brokers" user_pharos="hush-hush";
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
ssl.endpoint.identification.algorithm=
"""


@contextmanager
def guarded_broker(folder: Path) -> Iterator[KafkaConnection]:
    if shutil.which("openssl") is None:
        raise EngineMissing("openssl is not installed; on Debian: apt-get install openssl")
    _make_certificate(folder)
    broker = KafkaBroker(
        folder / "kafka",
        free_port(),
        "SASL_SSL://127.0.0.1:{port}",
        _PROPERTIES.format(folder=folder),
        quick_start_options(),
    )
    try:
        broker.start()
        environment = {
            "PHAROS_KAFKA_BOOTSTRAP": f"127.0.0.1:{broker.port}",
            "PHAROS_KAFKA_SECURITY": "sasl_ssl",
            "PHAROS_KAFKA_SASL_MECHANISM": "plain",
            "PHAROS_KAFKA_USERNAME": "pharos",
            "PHAROS_KAFKA_PASSWORD": "hush-hush",
            "PHAROS_KAFKA_CA_FILE": str(folder / "ca.pem"),
        }
        yield KafkaConnection.from_settings(read_settings(environment, lambda path: Path(path).read_text()))
    finally:
        broker.stop(signal.SIGKILL)


def _make_certificate(folder: Path) -> None:
    """Create a self-signed certificate for the loopback address."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "ca.pem")),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    parts = [(folder / name).read_text() for name in ("key.pem", "ca.pem")]
    (folder / "broker.pem").write_text("".join(parts))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with or_skip(guarded_broker(tmp_path_factory.mktemp("guarded-kafka"))) as connection:
        yield connection


async def test_records_are_stored_with_the_right_password_and_authority(guarded: KafkaConnection) -> None:
    await write_and_read(guarded)


async def test_a_wrong_password_is_reported_without_showing_it(guarded: KafkaConnection) -> None:
    with pytest.raises(StorageUnavailable) as error:
        await read_topics(replace(guarded, password="wrong-one"), ["guarded"])
    assert "wrong-one" not in str(error.value) and "hush" not in str(error.value)


async def test_a_broker_with_another_authority_is_refused(guarded: KafkaConnection) -> None:
    with pytest.raises(StorageUnavailable):
        await read_topics(replace(guarded, ca_file=None), ["guarded"])
