"""The variables of deployed applications for telemetry, and the key in them."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.key_rotation import reseal
from control_domain.projects.application_keys import ApplicationKey
from control_domain.published_keys import ChangedKeys, publish_changes, publish_new_keys
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.deployments import Release
from control_domain.tables.projects import IngestKey
from control_domain.tables.variables import VariableSet
from deployer.application_telemetry import ApplicationTelemetry, choose_telemetry_url
from deployer.deployments.log import utc_now
from deployer.telemetry_variables import TelemetryVariables
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import BadSettings, Settings
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.deploy_platform import Platform
from tests.support.serve_control import VARIABLE_KEYS

_NAME = "shop/production"
_KEY = ApplicationKey("phr_ing_x", "env_a", "pre prod", "shop,1", 1, 100.0, 1000)
_OLD, _NEW = b"o" * 32, b"n" * 32
_ALL = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://edge:1/api/v1/otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20phr_ing_x",
    "OTEL_SERVICE_NAME": "shop,1",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=pre%20prod,service.namespace=shop%2C1,service.version=abc",
    "PHAROS_URL": "http://edge:1",
    "PHAROS_INGEST_KEY": "phr_ing_x",
    "PHAROS_ENVIRONMENT": "pre prod",
    "SENTRY_DSN": "http://phr_ing_x@edge:1/1",
    "SENTRY_ENVIRONMENT": "pre prod",
    "SENTRY_RELEASE": "shop,1@abc",
}
_EXPORTER = {name for name in _ALL if name.startswith("OTEL_EXPORTER")}
_SENTRY = {name for name in _ALL if name.startswith("SENTRY")}


@pytest.mark.parametrize(
    ("own", "left_out"),
    [
        ({}, set()),
        ({"A": "b"}, set()),
        ({"OTEL_SERVICE_NAME": "mine"}, set()),
        ({"PHAROS_INGEST_KEY": "phr_ing_mine"}, set()),
        # The user's variables send telemetry elsewhere, so the key is not added.
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other"}, _EXPORTER),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://other"}, _EXPORTER),
        ({"PHAROS_URL": "http://other"}, {"PHAROS_URL", "PHAROS_INGEST_KEY"}),
        ({"SENTRY_DSN": "https://key@other/1"}, _SENTRY),
        ({"SENTRY_DSN": ""}, _SENTRY),
        ({"SENTRY_RELEASE": "1.2"}, set()),
    ],
)
def test_variables_of_the_user_win(own: dict[str, str], left_out: set[str]) -> None:
    telemetry = TelemetryVariables(_KEY, "http://edge:1")
    expected = {name: value for name, value in _ALL.items() if name not in left_out} | own
    assert telemetry.for_process("web", "abc", own) == expected


def test_processes_have_services_of_their_own() -> None:
    telemetry = TelemetryVariables(_KEY, "http://edge:1")
    variables = telemetry.for_process("worker", "", {})
    assert variables["OTEL_SERVICE_NAME"] == "shop,1-worker"
    assert "service.version" not in variables["OTEL_RESOURCE_ATTRIBUTES"]
    assert "SENTRY_RELEASE" not in variables
    assert telemetry.for_process("worker", "abc", {})["SENTRY_RELEASE"] == "shop,1-worker@abc"
    assert "phr_ing_x" not in repr(telemetry)


@pytest.mark.parametrize(
    ("setting", "local", "public", "expected"),
    [
        (None, None, None, None),
        (None, None, "https://p.example/", "https://p.example"),
        (None, "http://127.0.0.1:8000", "https://p.example", "http://127.0.0.1:8000"),
        ("http://edge:1/api/", "http://127.0.0.1:8000", None, "http://edge:1"),
    ],
)
def test_the_address_of_the_edge(
    setting: str | None, local: str | None, public: str | None, expected: str | None
) -> None:
    settings = replace(Settings(), deploy_telemetry_url=setting, public_url=public)
    assert choose_telemetry_url(settings, local) == expected


def test_an_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(BadSettings, match="PHAROS_DEPLOY_TELEMETRY_URL: 'edge:1' is no URL"):
        choose_telemetry_url(replace(Settings(), deploy_telemetry_url="edge:1"), None)


async def _rows(platform: Platform, environment_id: int) -> list[IngestKey]:
    async with platform.sessions() as session:
        query = select(IngestKey).where(
            IngestKey.environment_id == environment_id, IngestKey.name.is_not(None)
        )
        return list((await session.execute(query.order_by(IngestKey.id))).scalars())


async def test_a_key_is_made_once_and_again_after_its_revocation(platform: Platform) -> None:
    environment = platform.acme.environment(_NAME)
    published: list[bytes] = []

    async def publish(digest: bytes) -> None:
        published.append(digest)
        raise StorageUnavailable("away")

    keys = SealingKeys([_OLD])
    telemetry = ApplicationTelemetry(platform.sessions, keys, utc_now, "http://edge", publish=publish)
    known: list[ApplicationKey] = []
    telemetry.on_key.append(known.append)
    both = await asyncio.gather(*(telemetry.open(environment.public_id) for _ in range(4)))
    first = both[0]
    assert first is not None and all(one == first for one in both)
    assert (first.key.environment, first.key.project) == ("production", "shop")
    [row] = await _rows(platform, environment.id)
    assert published == [row.digest] == [digest_credential(first.key.secret)]
    assert first.key.secret.encode() not in (row.sealed or b"")

    # The environment of another account gets another key, and a removed environment gets none.
    other = await telemetry.open(platform.other.environment(_NAME).public_id)
    assert other is not None and other.key.secret != first.key.secret
    assert other.key.account_id != first.key.account_id
    assert await telemetry.open("env_gone") is None
    assert await replace(telemetry, url=None).open(environment.public_id) is None

    path = f"/v1/environments/{environment.public_id}/ingest-keys/{row.id}"
    assert (await platform.call("DELETE", path)).status == 200
    second = await telemetry.open(environment.public_id)
    assert second is not None and second.key.secret != first.key.secret
    # Output is stored under the new key at once.
    assert known == [first.key] * 4 + [other.key, second.key]
    former, present = await _rows(platform, environment.id)
    assert (former.sealed, former.sealing_key_id) == (None, None)
    assert present.digest == digest_credential(second.key.secret)


async def test_the_key_is_sealed_again_and_no_second_one_is_made_under_a_wrong_key(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    environment = platform.acme.environment(_NAME)

    def telemetry(*keys: bytes) -> ApplicationTelemetry:
        return ApplicationTelemetry(platform.sessions, SealingKeys(keys), utc_now, "http://edge")

    first = await telemetry(_OLD).open(environment.public_id)
    assert first is not None
    async with platform.sessions() as session, session.begin():
        done = await reseal(session, SealingKeys([_NEW, _OLD]), 10_000)
    assert done.done >= 1
    assert await telemetry(_NEW).open(environment.public_id) == first
    assert await telemetry(_OLD).open(environment.public_id) is None
    [row] = await _rows(platform, environment.id)
    assert f"(ingest key {row.id} of {environment.public_id})" in caplog.text
    # After a typing error in the setting, all stored values can be opened again.
    assert await telemetry(_NEW).open(environment.public_id) == first
    path = f"/v1/environments/{environment.public_id}/ingest-keys/{row.id}"
    assert (await platform.call("DELETE", path)).status == 200
    replaced = await telemetry(_OLD).open(environment.public_id)
    assert replaced is not None and replaced.key.secret != first.key.secret


async def test_a_missing_key_is_explained(platform: Platform) -> None:
    environment = platform.acme.environment(_NAME).public_id
    telemetry = ApplicationTelemetry(platform.sessions, SealingKeys([_OLD]), utc_now, "http://edge")
    assert await telemetry.explain_missing_key("env_gone") is None
    fault = f"environment {_NAME} has no usable ingest key"
    assert await telemetry.explain_missing_key(environment) == f"{fault}; deploy again"
    await telemetry.open(environment)
    other = replace(telemetry, keys=SealingKeys([_NEW]))
    assert await other.find_keys([environment]) == {}
    [row] = await _rows(platform, platform.acme.environment(_NAME).id)
    explained = await other.explain_missing_key(environment) or ""
    assert explained.startswith(f"{fault}: ingest key {row.id} is sealed under another key.")
    assert "PHAROS_VARIABLES_KEY" in explained
    # Revoked, as the explanation advises.
    path = f"/v1/environments/{environment}/ingest-keys/{row.id}"
    assert (await platform.call("DELETE", path)).status == 200
    assert await other.explain_missing_key(environment) == f"{fault}; deploy again"


async def test_the_values_of_a_deployment_are_found(platform: Platform) -> None:
    environment = platform.acme.environment(_NAME)
    telemetry = ApplicationTelemetry(platform.sessions, VARIABLE_KEYS, utc_now, "http://edge")
    path = f"/v1/environments/{environment.public_id}/variables"
    assert (await platform.call("PUT", path, {"variables": "PASSWORD=hunter2hunter2\n"})).status == 200
    async with platform.sessions() as session, session.begin():
        newest = select(VariableSet).where(VariableSet.environment_id == environment.id)
        variables = (await session.execute(newest.order_by(VariableSet.version.desc()))).scalars().first()
        deployment = platform.acme.deployments["production"]
        release = (
            await session.execute(select(Release).where(Release.deployment_id == deployment.id))
        ).scalar_one()
        assert variables is not None
        release.variables_id = variables.id
    assert await telemetry.read_values(environment.public_id, deployment.id) == ["hunter2hunter2"]
    # The values of another account's environment are not found. In that case nothing is stored.
    other = platform.other.environment(_NAME).public_id
    for place in ((other, deployment.id), (environment.public_id, 10**6)):
        with pytest.raises(CannotOpen):
            await telemetry.read_values(*place)


async def test_a_control_plane_publishes_keys_that_a_deployer_made(platform: Platform) -> None:
    environment = platform.acme.environment(_NAME)
    directory = InProcessKeyDirectory()
    now = datetime.now(UTC)
    known = await publish_new_keys(platform.sessions, directory, None, now)
    telemetry = ApplicationTelemetry(platform.sessions, SealingKeys([_OLD]), utc_now, "http://edge")
    opened = await telemetry.open(environment.public_id)
    assert opened is not None
    digest = digest_credential(opened.key.secret)
    assert await directory.find(digest) is None
    later = await publish_new_keys(platform.sessions, directory, known, datetime.now(UTC))
    assert len(later - known) == 1
    entry: Any = await directory.find(digest)
    assert entry.environment_id == environment.public_id
    assert await publish_new_keys(platform.sessions, directory, later, datetime.now(UTC)) == later
    await publish_changes(platform.sessions, directory, ChangedKeys(revoked=[digest]), now)
