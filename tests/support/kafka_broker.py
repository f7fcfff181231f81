"""One Apache Kafka broker in KRaft mode on loopback. The first start downloads its jars from Maven Central.

python -m tests.support.kafka_broker start [--port 9092] [--data .kafka]
python -m tests.support.kafka_broker stop [--data .kafka]
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.engines import EngineMissing, free_port

_POM = Path(__file__).with_name("kafka") / "pom.xml"
_JARS = Path(__file__).parents[2] / ".engines" / "kafka"
_DOWNLOAD_SECONDS = 900
# On two shared cores a JVM takes up to a minute to start.
_START_SECONDS = 200.0
_STARTED = b"Kafka Server started"
_QUICK_OPTIONS = ("-XX:TieredStopAtLevel=1",)
# Java ends with 143 after SIGTERM, once its shutdown hooks have run.
_ORDERLY_EXITS = (0, 128 + signal.SIGTERM)
# Messages of JVMs that cannot make an archive: an older Java, OpenJ9, a Java without the base archive, and one that was
# built without the feature.
_CANNOT_ARCHIVE = (
    "Unrecognized VM option 'ArchiveClassesAtExit",
    "unrecognised: -XX:ArchiveClassesAtExit",
    "unsupported when base CDS archive is not loaded",
    "Shared spaces are not supported in this VM",
)

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={data}/log
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# A killed broker may start again as soon as the controller has noticed its end.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=16777216
"""


@dataclass(slots=True)
class KafkaBroker:
    """A broker's process, which can be restarted on the same data."""

    data: Path
    port: int
    listeners: str = "PLAINTEXT://127.0.0.1:{port}"
    properties: str = ""
    """More lines of server.properties."""
    options: tuple[str, ...] = ()
    """More options of the JVM."""
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Write the configuration and format the data folder, once. Raises `EngineMissing`."""
        properties = self._properties_file()
        if properties.exists():
            return
        self.data.mkdir(parents=True, exist_ok=True)
        text = _PROPERTIES.format(
            listeners=self.listeners.format(port=self.port), controller=free_port(), data=self.data
        )
        properties.write_text(text + self.properties)
        subprocess.run(
            [
                *self._java("kafka.tools.StorageTool"),
                *("format", "--cluster-id", "pharosAAAAAAAAAAAAAAAA", "--config", str(properties)),
            ],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start, and wait until the broker serves clients. Raises `EngineMissing` and `RuntimeError`."""
        self.prepare()
        with open(self.data / "broker.log", "ab") as log:
            begun = log.tell()
            self.process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._properties_file())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        # The port accepts connections before the broker serves clients.
        while _STARTED not in (self.data / "broker.log").read_bytes()[begun:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"The broker did not start; see {self.data / 'broker.log'}")
            time.sleep(0.1)

    def log(self) -> str:
        """Return the broker's log of all its starts."""
        return (self.data / "broker.log").read_text(errors="replace")

    def _properties_file(self) -> Path:
        return self.data / "server.properties"

    def _java(self, program: str) -> list[str]:
        return [
            _find_java(),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
            *self.options,
            "-cp",
            _classpath(download_jars()),
            program,
        ]

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the process with this signal, and wait for its end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def download_jars() -> Path:
    """Return the folder of Kafka's jars; download them from Maven Central if they are missing.

    Raises `EngineMissing` if Maven is not installed or cannot reach a repository.
    """
    complete = _JARS / "complete"
    lib = _JARS / "lib"
    if complete.exists() and complete.read_text() == _POM.read_text():
        return lib
    maven = shutil.which("mvn")
    if maven is None:
        raise EngineMissing("Kafka's jars need Maven; on Debian: apt-get install maven")
    _JARS.mkdir(parents=True, exist_ok=True)
    with open(_JARS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(lib, ignore_errors=True)
        done = subprocess.run(
            [
                *(maven, "--batch-mode", "--quiet", "--file", str(_POM)),
                *("dependency:copy-dependencies", f"-DoutputDirectory={lib}", "-DincludeScope=runtime"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
        )
        if done.returncode:
            raise EngineMissing(f"Maven could not download Kafka's jars:\n{done.stdout[-2000:]}")
        complete.write_text(_POM.read_text())
    return lib


def _classpath(lib: Path) -> str:
    """Return the jars in a fixed order: the JVM accepts an archive of classes only for the classpath with which it was
    made."""
    return os.pathsep.join(map(str, sorted(lib.glob("*.jar"))))


def quick_start_options() -> tuple[str, ...]:
    """Return JVM options for a broker of tests. A start with them takes a third of the CPU time.

    They leave out the optimizing compiler and load the classes that a start needs from an archive (AppCDS), if this
    Java can make one. Raises `EngineMissing` and `RuntimeError`.
    """
    archive = prepare_archive()
    return _QUICK_OPTIONS if archive is None else (*_QUICK_OPTIONS, f"-XX:SharedArchiveFile={archive}")


def prepare_archive() -> Path | None:
    """Return the archive of classes for this Java and these jars; the first call makes it.

    Returns `None` if this Java cannot make one. Raises `EngineMissing`, and `RuntimeError` if the broker does not
    start.
    """
    built_from = f"{_classpath(download_jars())}\n{_POM.read_text()}\n{_java_version()}"
    archive = _JARS / f"classes-{hashlib.sha256(built_from.encode()).hexdigest()[:12]}.jsa"
    with open(_JARS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make_archive(archive)
    # Empty: this Java cannot make one.
    return archive if archive.stat().st_size else None


def _find_java() -> str:
    java = shutil.which("java")
    if java is None:
        raise EngineMissing("Java is not installed; on Debian: apt-get install openjdk-17-jre-headless")
    return java


def _java_version() -> str:
    command = [_find_java(), "-version"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stderr


def _make_archive(archive: Path) -> None:
    """Write the archive of classes that a broker loads when it starts, or an empty file if this Java cannot make one.

    Raises `RuntimeError` if the broker does not start, or does not end in an orderly way.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        made = archive.with_suffix(".new")
        # A killed process may have left an incomplete archive.
        made.unlink(missing_ok=True)
        broker = KafkaBroker(Path(folder), free_port())
        # Formatting runs in a separate JVM, which must not write the archive.
        broker.prepare()
        broker.options = (*_QUICK_OPTIONS, f"-XX:ArchiveClassesAtExit={made}")
        try:
            broker.start()
        except RuntimeError:
            broker.stop()
            if not _cannot_archive(broker.log()):
                # The folder of the log is about to be removed.
                raise RuntimeError(f"The broker did not start:\n{broker.log()[-2000:]}") from None
            archive.touch()
            return
        # Java writes the archive at an orderly exit.
        broker.stop()
        assert broker.process is not None
        status = broker.process.returncode
        if status in _ORDERLY_EXITS and made.exists():
            made.replace(archive)
        elif status in _ORDERLY_EXITS and _cannot_archive(broker.log()):
            archive.touch()
        else:
            raise RuntimeError(
                f"The broker ended with status {status} and made no usable archive of classes:\n{broker.log()[-2000:]}"
            )


def _cannot_archive(log: str) -> bool:
    return any(message in log for message in _CANNOT_ARCHIVE)


def _accepts_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
        return True
    return False


@contextlib.contextmanager
def running_kafka(
    data: Path, port: int | None = None, *, starts_quickly: bool = True
) -> Iterator[KafkaBroker]:
    """Yield a broker with its data in `data`; kill it at the end. Raises `EngineMissing`.

    With `starts_quickly` the broker is slower under load: see `quick_start_options`.
    """
    options = quick_start_options() if starts_quickly else ()
    broker = KafkaBroker(data, port or free_port(), options=options)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop(signal.SIGKILL)


def main() -> None:
    """`make kafka` and `make kafka-stop`."""
    parser = argparse.ArgumentParser(prog="kafka_broker", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("start", "stop", "jars"))
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--data", type=Path, default=Path(".kafka"))
    arguments = parser.parse_args()
    if arguments.action == "jars":
        try:
            prepare_archive()
        except (EngineMissing, RuntimeError) as error:
            sys.exit(str(error))
        return
    data: Path = arguments.data.absolute()
    pid_file = data / "broker.pid"
    if arguments.action == "stop":
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        pid_file.unlink(missing_ok=True)
        return
    if _accepts_connections(arguments.port):
        sys.exit(f"Something listens on port {arguments.port} already.")
    broker = KafkaBroker(data, arguments.port)
    try:
        broker.start()
    except (EngineMissing, RuntimeError) as error:
        sys.exit(str(error))
    assert broker.process is not None
    pid_file.write_text(str(broker.process.pid))
    print(f"Kafka runs on {broker.bootstrap}, its data in {data}. `make kafka-stop` ends it.")


if __name__ == "__main__":
    main()
