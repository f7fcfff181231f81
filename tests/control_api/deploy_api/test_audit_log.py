"""The audit log has an entry for every write, with person, token, address and request ID."""

import itertools
import json
from typing import Any

from sqlalchemy import select

from control_domain.tables.accounts import ApiToken
from control_domain.tables.audit import AuditEntry
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.credentials import digest_credential
from tests.support.deploy_platform import Platform, Response, environment_path


async def _entries(platform: Platform) -> list[AuditEntry]:
    async with platform.sessions() as session:
        return list((await session.execute(select(AuditEntry).order_by(AuditEntry.id))).scalars())


async def _sources(platform: Platform, *forwarded: str) -> str:
    """Return the source that the audit log records for a call with these `X-Forwarded-For` headers."""
    path = environment_path(platform.acme.places["shop/staging"], "scale")
    headers = [("Authorization", f"Bearer {platform.acme.token()}"), ("Content-Type", "application/json")]
    headers += [("X-Forwarded-For", value) for value in forwarded]
    async with platform.http.patch(
        f"{platform.url}/api{path}", data=b'{"replicas": 2}', headers=headers
    ) as answer:
        assert answer.status == 202
    return (await _entries(platform))[-1].source


async def test_each_write_adds_an_audit_entry(platform: Platform) -> None:
    acme = platform.acme
    token = acme.token("deployer")
    place = acme.places["shop/development"]
    production = acme.environment("shop/production")
    built = acme.deployments

    numbers = itertools.count()

    async def call(method: str, path: str, body: Any = None) -> Response:
        headers = {"X-Request-Id": f"request-{next(numbers)}"}
        answer = await platform.call(method, path, body, token=token, headers=headers)
        assert answer.status in (200, 202)
        return answer

    deployed = await call("POST", environment_path(place, "deploy"), {"ref": "v1"})
    back = await call("POST", f"/v1/deployments/{built['staging'].id}/rollback")
    target = {"target_environment_id": production.public_id, "promotion_note": "ready"}
    promoted = await call("POST", f"/v1/deployments/{built['staging'].id}/promote", target)
    await call("PATCH", environment_path(place, "scale"), {"replicas": 3})
    await call("PATCH", environment_path(place, "runtime"), {"state": "hibernated"})
    await call("PUT", environment_path(place, "variables"), {"variables": "B=hidden\nA=hidden"})
    await platform.change("shop/development", variables_need_approval=True)
    await call("PUT", environment_path(place, "variables"), {"variables": "C=hidden"})
    here, staging = place.environment.public_id, acme.environment("shop/staging").public_id
    entries = await _entries(platform)
    plain = {"ref": None, "note": None}
    assert [(entry.action, entry.subject, json.loads(entry.details)) for entry in entries] == [
        (
            "deployment.queue",
            f"deployment {deployed.data['id']}",
            {**plain, "environment": here, "trigger": "api", "ref": "v1"},
        ),
        (
            "deployment.queue",
            f"deployment {back.data['id']}",
            {**plain, "environment": staging, "trigger": "rollback"},
        ),
        (
            "deployment.queue",
            f"deployment {promoted.data['id']}",
            {**plain, "environment": production.public_id, "trigger": "promotion", "note": "ready"},
        ),
        ("environment.scale", f"environment {here}", {"from": 1, "to": 3}),
        ("environment.state", f"environment {here}", {"from": "running", "to": "hibernated"}),
        ("variables.replace", f"environment {here}", {"names": ["A", "B"]}),
        ("variables.propose", f"environment {here}", {"names": ["C"]}),
    ]
    async with platform.sessions() as session:
        query = select(ApiToken.id).where(ApiToken.digest == digest_credential(token))
        token_id = (await session.execute(query)).scalar_one()
    assert {(entry.account_id, entry.person_id, entry.token_id, entry.source) for entry in entries} == {
        (acme.account.id, acme.people["deployer"].id, token_id, "127.0.0.1")
    }
    assert [entry.request_id for entry in entries] == [f"request-{number}" for number in range(7)]


async def test_replayed_request_adds_no_audit_entry(platform: Platform) -> None:
    path = environment_path(platform.acme.places["shop/development"], "deploy")
    for _ in range(3):
        await platform.call("POST", path, headers={"Idempotency-Key": "k"})
    assert len(await _entries(platform)) == 1


async def test_forwarded_addresses_are_used_only_from_trusted_proxies(platform: Platform) -> None:
    forged = "203.0.113.9"
    assert await _sources(platform) == "127.0.0.1"
    assert await _sources(platform, forged) == "127.0.0.1"
    platform.app.state.client_addresses = parse_trusted_proxies("10.0.0.0/8")
    assert await _sources(platform, forged) == "127.0.0.1"
    platform.app.state.client_addresses = parse_trusted_proxies("127.0.0.1, 10.0.0.0/8, ::1")
    assert await _sources(platform) == "127.0.0.1"
    assert await _sources(platform, "198.51.100.7") == "198.51.100.7"
    assert await _sources(platform, f"{forged}, 198.51.100.7") == "198.51.100.7"
    assert await _sources(platform, f"{forged}, 198.51.100.7, 10.1.2.3") == "198.51.100.7"
    assert await _sources(platform, "2001:db8::1") == "2001:db8::1"
    assert await _sources(platform, f"{forged}, garbage") == "127.0.0.1"
    assert await _sources(platform, "x" * 5000) == "127.0.0.1"


async def test_repeated_forwarded_headers_form_one_list(platform: Platform) -> None:
    """A proxy may add its own header line after that of the caller (RFC 9110, 5.3)."""
    platform.app.state.client_addresses = parse_trusted_proxies("127.0.0.1")
    assert await _sources(platform, "203.0.113.9", "198.51.100.7") == "198.51.100.7"
