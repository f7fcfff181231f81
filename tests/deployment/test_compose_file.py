"""The compose file and the image are checked against the program; no Docker engine is needed."""

import re
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from operator_cli.grammar.build_parser import build_parser
from pipeline_contracts.read_settings import describe_settings, read_settings
from tests.support.compose_file import (
    ROOT,
    interpolate,
    needed_variables,
    own_services,
    read_compose,
)

SECRETS = {
    "POSTGRES_PASSWORD",
    "KAFKA_PASSWORD",
    "CLICKHOUSE_PASSWORD",
    "REDIS_PASSWORD",
    "PHAROS_RECEIPT_KEY",
    "PHAROS_VARIABLES_KEY",
}
# The settings without which a part does not start, according to its --help.
NEEDS = {
    "migrate": {"PHAROS_KAFKA_BOOTSTRAP", "PHAROS_CLICKHOUSE_URL", "PHAROS_DATABASE_URL"},
    "edge": {"PHAROS_KAFKA_BOOTSTRAP", "PHAROS_REDIS_URL", "PHAROS_RECEIPT_KEY"},
    "consumers": {"PHAROS_KAFKA_BOOTSTRAP", "PHAROS_CLICKHOUSE_URL", "PHAROS_DATABASE_URL"},
    "deployer": {"PHAROS_DATABASE_URL", "PHAROS_VARIABLES_KEY", "PHAROS_DEPLOY_FOLDER"},
    "control": {
        "PHAROS_DATABASE_URL",
        "PHAROS_CLICKHOUSE_URL",
        "PHAROS_REDIS_URL",
        "PHAROS_RECEIPT_KEY",
        "PHAROS_VARIABLES_KEY",
    },
}


def test_the_compose_file_has_every_part() -> None:
    assert set(own_services()) == {"migrate", "edge", "consumers", "control", "deployer"}
    engines = set(read_compose()["services"]) - set(own_services())
    assert engines == {"kafka", "clickhouse", "redis", "postgres", "gateway"}


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_each_command_exists_and_accepts_its_arguments(name: str) -> None:
    command = [interpolate(part, {}) for part in own_services()[name]["command"]]
    assert command[0] == name
    build_parser(command[0]).parse_args(command)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_each_variable_is_a_setting_and_none_is_missing(name: str) -> None:
    environment: dict[str, str | None] = own_services()[name]["environment"]
    values = {
        variable: interpolate(str(text), dict.fromkeys(SECRETS, "s" * 40))
        for variable, text in environment.items()
        # A variable without a value is not set in the container, unless it is set outside.
        if text is not None
    }
    settings = read_settings(values, lambda path: Path(path).read_text())
    for variable in NEEDS[name]:
        assert getattr(settings, variable.removeprefix("PHAROS_").lower()), variable


def test_settings_of_webhooks_sign_in_and_notifications_are_set_from_outside_or_not_at_all() -> None:
    environment = own_services()["control"]["environment"]
    passed = {variable for variable, text in environment.items() if text is None}
    assert passed == {
        "PHAROS_PUBLIC_URL",
        "PHAROS_GIT_APP_SECRET",
        "PHAROS_GITHUB_TOKEN",
        "PHAROS_GITHUB_API_URL",
        *(variable for variable, _, _ in describe_settings() if variable.startswith("PHAROS_OIDC_")),
        "PHAROS_SMTP_URL",
        "PHAROS_SMTP_FROM",
        "PHAROS_SMTP_PLAINTEXT",
        "PHAROS_NOTIFICATION_PRIVATE_ADDRESSES",
        "PHAROS_NOTIFICATION_GROUP_SECONDS",
        "PHAROS_NOTIFICATION_CHANGE_SECONDS",
    }
    assert passed <= {variable for variable, _, _ in describe_settings()}
    named = set(re.findall(r"PHAROS_\w+", (ROOT / "docs" / "operations" / "sign-in.md").read_text()))
    assert {name.removesuffix("_FILE") for name in named} <= set(environment)
    # The service that creates the first account gets the address of its owner.
    environment = own_services()["migrate"]["environment"]
    assert {variable for variable, text in environment.items() if text is None} == {"PHAROS_OWNER_EMAIL"}


def test_no_secret_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert needed_variables(text) == SECRETS
    # Each reference to a secret fails if the secret is empty.
    for name in SECRETS:
        assert not re.search(rf"\$\{{{name}(?!:\?)", text), name
    for line in text.splitlines():
        found = re.search(r"(PASSWORD|_KEY|SECRET|TOKEN)\w*:(.*)", line)
        if found and found[2].strip() and not line.lstrip().startswith("#"):
            assert "${" in line, f"a secret in plain text: {line}"


def test_images_are_pinned() -> None:
    for name, service in read_compose()["services"].items():
        image, _, tag = service["image"].partition(":")
        assert image and re.match(r"\d+\.\d+", tag), f"{name}: {service['image']}"
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("FROM"):
            assert re.match(r"FROM \S+:\d+\.\d+\.\d+", line), line


def test_services_have_health_checks_and_their_data_has_volumes() -> None:
    document = read_compose()
    for name, service in document["services"].items():
        assert name == "migrate" or "healthcheck" in service, name
    for name in ("kafka", "clickhouse", "postgres", "deployer"):
        mounted = [volume.split(":")[0] for volume in document["services"][name]["volumes"]]
        assert set(mounted) <= set(document["volumes"]), name


def test_services_wait_for_their_dependencies() -> None:
    services = own_services()
    for name in ("edge", "consumers", "control", "deployer"):
        waits: dict[str, Any] = services[name]["depends_on"]
        assert waits["migrate"]["condition"] == "service_completed_successfully"
    assert set(services["migrate"]["depends_on"]) == {"kafka", "clickhouse", "postgres"}


def test_the_image_is_small_and_not_root() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    last_stage = dockerfile.split("\nFROM ")[-1]
    assert re.search(r"^USER 10001$", last_stage, re.M)
    # Build tools and tests are not in the image.
    assert "requirements.runtime.lock" in dockerfile and "requirements.lock" not in dockerfile
    runtime = (ROOT / "requirements.runtime.lock").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", runtime, re.M))
    assert {"aiohttp", "aiokafka", "redis", "asyncpg", "chdb-core"} <= names
    assert not {"pytest", "locust", "ruff", "mypy", "hypothesis"} & names


def test_both_lock_files_have_the_same_versions() -> None:
    def versions(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / name).read_text(), re.M))

    everything, runtime = versions("requirements.lock"), versions("requirements.runtime.lock")
    assert runtime.items() <= everything.items()


def test_make_adds_the_secrets_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())

    def make() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["make", "compose-secrets"], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    assert make().returncode == 0
    written = (tmp_path / ".env").read_text()
    values = dict(line.split("=") for line in written.splitlines())
    assert set(values) == SECRETS
    assert len(set(values.values())) == len(SECRETS) and all(len(v) == 64 for v in values.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    assert make().returncode == 0
    assert (tmp_path / ".env").read_text() == written
    # An older installation that lacks one secret keeps the others: its volumes depend on their values.
    earlier = "".join(line for line in written.splitlines(True) if not line.startswith("KAFKA"))
    (tmp_path / ".env").write_text(f"PHAROS_BIND=0.0.0.0\n{earlier}".rstrip("\n"))
    assert "Added KAFKA_PASSWORD" in make().stdout
    lines = (tmp_path / ".env").read_text().splitlines()
    assert lines[:-1] == ["PHAROS_BIND=0.0.0.0", *earlier.splitlines()]
    assert re.fullmatch(r"KAFKA_PASSWORD=[0-9a-f]{64}", lines[-1])


def _networks(name: str) -> set[str]:
    return set(read_compose()["services"][name]["networks"])


def test_applications_share_a_network_only_with_the_gateway() -> None:
    # They run in the deployer's container.
    assert _networks("deployer") == {"applications"}
    assert _networks("gateway") == {"front", "applications"}
    for name in set(read_compose()["services"]) - {"deployer", "gateway"}:
        assert "applications" not in _networks(name), name
    for name in ("kafka", "clickhouse", "redis", "postgres", "migrate", "consumers"):
        assert "front" not in _networks(name), name
    for name, service in read_compose()["services"].items():
        assert "networks" in service, f"{name} is on the default network"
    for name in ("engines", "database"):
        assert read_compose()["networks"][name] == {"internal": True}


def test_only_root_can_open_the_postgres_socket_in_the_deployers_container() -> None:
    services = read_compose()["services"]
    assert "unix_socket_permissions=0700" in services["postgres"]["command"]
    assert "postgres-socket:/var/run/postgresql" in services["postgres"]["volumes"]
    # The socket belongs to Postgres' user.
    assert services["deployer"]["user"] == "0:0" and "DAC_OVERRIDE" in services["deployer"]["cap_add"]
    url = services["deployer"]["environment"]["PHAROS_DATABASE_URL"]
    folder = re.fullmatch(r"postgresql://.*@/pharos\?host=(.*)", url)
    assert folder and f"postgres-socket:{folder[1]}:ro" in services["deployer"]["volumes"]
    for name in set(services) - {"postgres", "deployer"}:
        assert "postgres-socket" not in str(services[name].get("volumes")), name


def test_only_the_gateway_is_trusted_and_no_other_service_gets_its_address() -> None:
    document = read_compose()
    for network, names in (("front", ("edge", "control")), ("applications", ("deployer",))):
        address = interpolate(document["services"]["gateway"]["networks"][network]["ipv4_address"], {})
        for name in names:
            assert _networks(name) - {"engines", "database"} == {network}
            trusted = document["services"][name]["environment"]["PHAROS_TRUSTED_PROXIES"]
            assert interpolate(trusted, {}) == address
        (config,) = document["networks"][network]["ipam"]["config"]
        subnet, given = (ip_network(interpolate(config[key], {})) for key in ("subnet", "ip_range"))
        assert given.subnet_of(subnet)
        assert ip_address(address) in subnet and ip_address(address) not in given


def test_ports_are_published_on_loopback_by_default() -> None:
    for service in read_compose()["services"].values():
        for port in service.get("ports", ()):
            assert interpolate(port, {}).startswith("127.0.0.1:")
            assert interpolate(port, {"PHAROS_BIND": "0.0.0.0"}).startswith("0.0.0.0:")


def test_kafka_requires_a_password_on_every_network() -> None:
    environment: dict[str, str] = read_compose()["services"]["kafka"]["environment"]
    protocols = dict(
        pair.split(":") for pair in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )
    for listener in environment["KAFKA_LISTENERS"].split(","):
        name, _, address = listener.partition("://")
        assert protocols[name] == "SASL_PLAINTEXT" or address.startswith("127.0.0.1:"), listener
    # The image refuses to start with such a name unless it gets a JAAS file.
    assert "SASL_" not in environment["KAFKA_ADVERTISED_LISTENERS"]
    for name in ("migrate", "edge", "consumers"):
        given = own_services()[name]["environment"]
        assert given["PHAROS_KAFKA_SECURITY"] == "sasl_plaintext", name
