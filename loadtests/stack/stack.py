"""Runs the engines and all parts of Pharos, wired as in docker-compose.yml."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtests.stack.parts import PHAROS, Part, PartFailed
from tests.support.clickhouse_front import FrontServer, running_clickhouse_front
from tests.support.engines import EngineMissing, free_port
from tests.support.kafka_broker import KafkaBroker, running_kafka
from tests.support.postgres_server import PostgresServer, running_postgres
from tests.support.redis_server import RedisServer, running_redis

_CADDYFILE = Path(__file__).parents[2] / "Caddyfile"
ReportProgress = Callable[[str], None]


@dataclass(slots=True)
class Stack:
    """A running stack. Parts may be killed, restarted and added."""

    folder: Path
    kafka: KafkaBroker
    redis: RedisServer
    postgres: PostgresServer
    clickhouse: FrontServer
    env: Mapping[str, str]
    edges: list[Part] = field(default_factory=list)
    consumers: list[Part] = field(default_factory=list)
    others: list[Part] = field(default_factory=list)
    credentials: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> list[Part]:
        """Return all processes in the order in which they must end: senders first."""
        return [*reversed(self.others), *self.edges, *self.consumers]

    def pharos(self, name: str, *arguments: str) -> Part:
        """Return a part that runs a command of `pharos`. It is not started yet."""
        port, metrics_port = free_port(), free_port()
        return Part(
            name,
            [str(PHAROS), *arguments, "--port", str(port)],
            port,
            "/health/ready",
            {**self.env, "PHAROS_METRICS_LISTEN": f"127.0.0.1:{metrics_port}"},
            self.folder / f"{name}.log",
            metrics_port,
        )

    def add_consumer(self) -> Part:
        """Start one more consumer. Do not wait until it is ready."""
        part = self.pharos(f"consumers-{len(self.consumers) + 1}", "consumers")
        self.consumers.append(part)
        part.start()
        return part

    def add_edge(self) -> Part:
        """Start one more edge. The gateway only knows the edges that existed when it started."""
        part = self.pharos(f"edge-{len(self.edges) + 1}", "edge")
        self.edges.append(part)
        part.start()
        return part

    def write_credentials(self) -> None:
        """Write `credentials.json` as `pharos up` does, with the addresses of all parts."""
        path = self.folder / "credentials.json"
        known = json.loads(path.read_text())
        engines = {
            "kafka": self.kafka.process,
            "redis": self.redis.process,
            "postgres": self.postgres.process,
            "clickhouse": self.clickhouse.process,
        }
        self.credentials = {
            **known,
            "clickhouse_url": self.clickhouse.url,
            "kafka_bootstrap": self.kafka.bootstrap,
            "redis_url": self.redis.url,
            "database_url": self.postgres.url,
            "processes": {
                **{name: {"pid": process.pid if process else None} for name, process in engines.items()},
                **{part.name: {"pid": part.pid, "port": part.port} for part in self.parts()},
            },
        }
        path.write_text(json.dumps(self.credentials, indent=2) + "\n")


@contextmanager
def running_stack(
    folder: Path,
    *,
    edges: int = 2,
    consumers: int = 2,
    port: int | None = None,
    apps_port: int | None = None,
    settings: Mapping[str, str] | None = None,
    report_progress: ReportProgress = lambda line: None,
) -> Iterator[Stack]:
    """Run a complete stack within the context. It is ready at the beginning, and stopped at the end.

    `settings`: more `PHAROS_*` variables. `port`: the port of the gateway. `apps_port`: the gateway's port for
    deployed applications.

    Raises `EngineMissing`, `PartFailed` and `RuntimeError`.
    """
    caddy = shutil.which("caddy")
    if caddy is None:
        raise EngineMissing("Caddy is not installed; on Debian: apt-get install caddy")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    gateway_port = port or free_port()
    with ExitStack() as exits:
        kafka = exits.enter_context(running_kafka(folder / "kafka", starts_quickly=False))
        report_progress(f"Kafka       {kafka.bootstrap}")
        redis = exits.enter_context(running_redis(folder / "redis"))
        report_progress(f"Redis       {redis.url}")
        postgres = exits.enter_context(running_postgres(folder))
        report_progress(f"Postgres    {postgres.url}")
        clickhouse = exits.enter_context(running_clickhouse_front(folder / "clickhouse"))
        report_progress(f"ClickHouse  {clickhouse.url} (its HTTP interface over chDB)")
        env = {
            "PHAROS_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "PHAROS_REDIS_URL": redis.url,
            "PHAROS_DATABASE_URL": postgres.url,
            "PHAROS_CLICKHOUSE_URL": clickhouse.url,
            "PHAROS_RECEIPT_KEY": secrets.token_urlsafe(32),
            "PHAROS_VARIABLES_KEY": secrets.token_urlsafe(32),
            # Applications are deployed from local folders.
            "PHAROS_REPOSITORY_FOLDERS": "/",
            # The gateway passes on the address of the caller.
            "PHAROS_TRUSTED_PROXIES": "127.0.0.1",
            # All load users have tokens of the same account.
            "PHAROS_ACCOUNT_REQUEST_RATE": "1000000",
            "PHAROS_ACCOUNT_REQUEST_BURST": "1000000",
            **(settings or {}),
        }
        stack = Stack(folder, kafka, redis, postgres, clickhouse, env)
        exits.callback(_end, stack)
        _migrate(stack, f"http://127.0.0.1:{gateway_port}/api")
        report_progress("migrated")
        control = stack.pharos("control", "control")
        stack.others.append(control)
        control.start()
        apps, apps_port = _deployer(stack, apps_port)
        for _ in range(edges):
            stack.add_edge()
        for _ in range(consumers):
            stack.add_consumer()
        gateway = _gateway(caddy, stack, control, gateway_port, (apps, apps_port))
        stack.others.append(gateway)
        gateway.start()
        for part in reversed(stack.parts()):
            part.wait_ready()
            report_progress(f"{part.name:<11} {part.url}")
        stack.write_credentials()
        yield stack


def _migrate(stack: Stack, base_url: str) -> None:
    done = subprocess.run(
        [
            *(str(PHAROS), "migrate", "--base-url", base_url),
            *("--credentials", str(stack.folder / "credentials.json")),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={"PATH": str(Path(sys.executable).parent), **stack.env},
        timeout=120,
    )
    if done.returncode:
        raise PartFailed(f"pharos migrate ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _deployer(stack: Stack, apps_port: int | None) -> tuple[str, int]:
    """Start the deployer. Return the address of its proxy, and the gateway's port for applications."""
    inner, outer = free_port(), apps_port or free_port()
    deployer = stack.pharos("deployer", "deployer", "--apps-port", str(inner), "--stop-processes")
    folder = {"PHAROS_DEPLOY_FOLDER": str(stack.folder / "deployer"), "PHAROS_DEPLOY_PORT": str(outer)}
    deployer.env = {**deployer.env, **folder}
    stack.others.append(deployer)
    deployer.start()
    return f"127.0.0.1:{inner}", outer


def _gateway(caddy: str, stack: Stack, control: Part, port: int, apps: tuple[str, int]) -> Part:
    upstreams = " ".join(f"127.0.0.1:{edge.port}" for edge in stack.edges)
    env = {
        "PHAROS_GATEWAY_ADDRESS": f"http://127.0.0.1:{port}",
        "PHAROS_EDGE_UPSTREAMS": f"to {upstreams}",
        "PHAROS_CONTROL_UPSTREAM": f"127.0.0.1:{control.port}",
        "PHAROS_APPS_ADDRESS": f"http://:{apps[1]}",
        "PHAROS_APPS_BIND": "127.0.0.1",
        "PHAROS_APPS_UPSTREAM": apps[0],
        "XDG_DATA_HOME": str(stack.folder / "caddy"),
        "XDG_CONFIG_HOME": str(stack.folder / "caddy"),
    }
    command = [caddy, "run", "--config", str(_CADDYFILE), "--adapter", "caddyfile"]
    return Part("gateway", command, port, "/gateway/live", env, stack.folder / "gateway.log")


def _end(stack: Stack) -> None:
    for part in stack.parts():
        part.stop()
