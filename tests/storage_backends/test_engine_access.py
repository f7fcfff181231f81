"""Kafka and Postgres as docker-compose.yml configures them: access control, against the real engines."""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from control_domain.database.engine import open_engine
from control_domain.database.postgres import open_postgres_for_migrations
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.read_settings import read_settings
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import read_topics
from tests.support.compose_file import interpolate, own_services, read_compose
from tests.support.engines import free_port, or_skip
from tests.support.kafka_broker import KafkaBroker, quick_start_options
from tests.support.log_under_test import write_and_read
from tests.support.postgres_server import running_postgres
from tests.support.reaper import run_folder

_SECRETS = {"KAFKA_PASSWORD": "hush-hush"}
# The first user ID that a deployer may give to an application.
_APPLICATION_UID = 100_000_000


@contextmanager
def _composed_broker(folder: Path) -> Iterator[KafkaConnection]:
    """Run a broker with the options of docker-compose.yml on other ports; yield the edge's connection settings."""
    port, local, controller = free_port(), free_port(), free_port()

    def moved(text: str) -> str:
        for name, here in (
            ("CLIENTS://:9092", f"CLIENTS://127.0.0.1:{port}"),
            ("kafka:9092", f"127.0.0.1:{port}"),
            ("127.0.0.1:9094", f"127.0.0.1:{local}"),
            ("127.0.0.1:9093", f"127.0.0.1:{controller}"),
        ):
            text = text.replace(name, here)
        return interpolate(text, _SECRETS)

    # The image's rule: KAFKA_A_B is the option a.b.
    options = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): moved(text)
        for name, text in read_compose()["services"]["kafka"]["environment"].items()
        if name != "KAFKA_LOG_DIRS"
    }
    lines = "".join(f"{name}={text}\n" for name, text in options.items())
    broker = KafkaBroker(folder, port, properties=lines, options=quick_start_options())
    try:
        broker.start()
        environment = {
            name: moved(text)
            for name, text in own_services()["edge"]["environment"].items()
            if name.startswith("PHAROS_KAFKA_")
        }
        yield KafkaConnection.from_settings(read_settings(environment, lambda path: Path(path).read_text()))
    finally:
        broker.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with or_skip(_composed_broker(tmp_path_factory.mktemp("composed-kafka"))) as connection:
        yield connection


async def test_the_services_of_compose_write_and_read_with_the_password(composed: KafkaConnection) -> None:
    await write_and_read(composed)


async def test_other_passwords_users_and_protocols_are_refused_with_the_reason(
    composed: KafkaConnection,
) -> None:
    for stranger, reason in (
        (replace(composed, password="wrong-one"), "refused the user 'pharos'"),
        (replace(composed, username="admin"), "refused the user 'admin'"),
        (replace(composed, password=None), "PHAROS_KAFKA_PASSWORD"),
        (replace(composed, sasl_mechanism="SCRAM-SHA-512"), "PHAROS_KAFKA_SASL_MECHANISM"),
        (replace(composed, security="PLAINTEXT"), "PHAROS_KAFKA_SECURITY"),
        (replace(composed, bootstrap=f"127.0.0.1:{free_port()}"), "Unable to bootstrap"),
    ):
        with pytest.raises(StorageUnavailable) as refused:
            await read_topics(stranger, ["guarded"])
        assert reason in str(refused.value)
        assert "wrong-one" not in str(refused.value) and "hush" not in str(refused.value)


async def test_the_deployer_reaches_postgres_over_a_socket_that_no_application_can_open(
    tmp_path: Path,
) -> None:
    # The image creates the folder of the socket this way: every user may enter.
    folder = Path(tempfile.mkdtemp(prefix="socket-", dir=run_folder()))
    folder.chmod(0o1777)
    _, _, *flags = read_compose()["services"]["postgres"]["command"]
    options = dict(flag.split("=") for flag in flags)
    # Without a network port, 5432 is only part of the socket's name.
    options |= {"listen_addresses": "", "unix_socket_directories": str(folder)}
    url = interpolate(
        own_services()["deployer"]["environment"]["PHAROS_DATABASE_URL"], {"POSTGRES_PASSWORD": "hush-hush"}
    )
    url = url.replace("/run/postgres", str(folder)).replace("/pharos?", "/postgres?")
    with or_skip(running_postgres(tmp_path, 5432, options=options)):
        engine = open_engine(url)
        migrations = open_postgres_for_migrations(engine)
        try:
            for opened in (engine, migrations):
                async with opened.connect() as connection:
                    assert (await connection.execute(select(func.inet_client_addr()))).scalar() is None
        finally:
            await migrations.dispose()
            await engine.dispose()
        socket_file = folder / ".s.PGSQL.5432"
        assert socket_file.stat().st_mode & 0o777 == 0o700
        if os.geteuid() == 0:
            with socket.socket(socket.AF_UNIX) as application:
                os.seteuid(_APPLICATION_UID)
                try:
                    with pytest.raises(PermissionError):
                        application.connect(str(socket_file))
                finally:
                    os.seteuid(0)
    shutil.rmtree(folder)
