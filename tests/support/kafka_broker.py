"""Apache Kafka itself, one broker in KRaft mode on loopback. Its jars come from Maven Central at the first start.

python -m tests.support.kafka_broker start [--port 9092] [--data .kafka]
python -m tests.support.kafka_broker stop [--data .kafka]
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.engines import EngineMissing, free_port

_POM = Path(__file__).with_name("kafka") / "pom.xml"
_JARS = Path(__file__).parents[2] / ".engines" / "kafka"
_DOWNLOAD_SECONDS = 900
# A JVM that has to share two cores took most of a minute.
_START_SECONDS = 200.0
_STARTED = b"Kafka Server started"

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
# One that was killed may come back as soon as the controller has noticed.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=16777216
"""


@dataclass(slots=True)
class KafkaBroker:
    """A broker's process, and how to start it again on the same data."""

    data: Path
    port: int
    listeners: str = "PLAINTEXT://127.0.0.1:{port}"
    properties: str = ""
    """More lines of server.properties."""
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and wait until it works for clients. Raises `EngineMissing` and `RuntimeError`."""
        java = shutil.which("java")
        if java is None:
            raise EngineMissing("Java is not installed; on Debian: apt-get install openjdk-17-jre-headless")
        classpath = f"{bring_jars()}/*"
        self.data.mkdir(parents=True, exist_ok=True)
        properties = self.data / "server.properties"
        if not properties.exists():
            text = _PROPERTIES.format(
                listeners=self.listeners.format(port=self.port), controller=free_port(), data=self.data
            )
            properties.write_text(text + self.properties)
            formatted = [java, "-cp", classpath, "kafka.tools.StorageTool", "format"]
            subprocess.run(
                [*formatted, "--cluster-id", "pharosAAAAAAAAAAAAAAAA", "--config", str(properties)],
                check=True,
                capture_output=True,
            )
        with open(self.data / "broker.log", "ab") as log:
            begun = log.tell()
            self.process = subprocess.Popen(
                [
                    java,
                    "-Xmx512m",
                    "-XX:+UseSerialGC",
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
                    "-cp",
                    classpath,
                    "kafka.Kafka",
                    str(properties),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        # Its port takes connections before the controller lets it work.
        while _STARTED not in (self.data / "broker.log").read_bytes()[begun:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"The broker did not start; see {self.data / 'broker.log'}")
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it; SIGKILL to see what that does."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def bring_jars() -> Path:
    """The folder of Kafka's jars, filled from Maven Central where it is not there yet.

    Raises `EngineMissing` where Maven is not installed or cannot reach a repository.
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
            raise EngineMissing(f"Maven could not bring Kafka's jars:\n{done.stdout[-2000:]}")
        complete.write_text(_POM.read_text())
    return lib


def _takes_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
        return True
    return False


@contextlib.contextmanager
def running_kafka(data: Path, port: int | None = None) -> Iterator[KafkaBroker]:
    """A broker with its data in `data`, gone at the end. Raises `EngineMissing`."""
    broker = KafkaBroker(data, port or free_port())
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
            bring_jars()
        except EngineMissing as error:
            sys.exit(str(error))
        return
    data: Path = arguments.data.absolute()
    pid_file = data / "broker.pid"
    if arguments.action == "stop":
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        pid_file.unlink(missing_ok=True)
        return
    if _takes_connections(arguments.port):
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
