"""Heartbeats and their runs."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.monitors import limits
from control_domain.tables.audit import AuditEntry
from control_domain.tables.monitors import HeartbeatRun, HeartbeatState
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry
from tests.control_api.management.conftest import Api
from tests.support.deploy_platform import add_monitors

HEARTBEATS = "/v1/monitors/heartbeats"
RUN = "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e{:02x}"
T0 = 1_774_432_800_000


@pytest.fixture
async def api(api: Api) -> Api:
    """Return a platform with monitors, for this test alone."""
    await add_monitors(api.platform)
    return api


def environment_of(api: Api, name: str = "shop/staging") -> str:
    return f"/v1/environments/{api.platform.acme.environment(name).public_id}"


def nightly(api: Api) -> str:
    """Return the path of the heartbeat of `add_monitors`."""
    assert api.platform.acme.heartbeat is not None
    return f"{HEARTBEATS}/{api.platform.acme.heartbeat.id}"


async def create(api: Api, **body: Any) -> Any:
    schedule = {} if "cron" in body else {"period_seconds": 3600}
    made = await api.call(
        "POST", f"{environment_of(api)}/heartbeats", {"name": "backup", **schedule, **body}, by="deployer"
    )
    assert made.status == 201, made.body
    return made.data


async def find_key(api: Api, secret: str) -> KeyEntry | None:
    """Return the entry that the edges have for a key."""
    return await api.platform.directory.find(digest_credential(secret))


async def test_create(api: Api) -> None:
    made = await create(api, name=" Backup ", cron=" 0 3  * * *", timezone="Europe/Oslo", grace_seconds=0)
    path = f"{HEARTBEATS}/{made['id']}"
    key, ping_key = made.pop("key"), made.pop("ping_key")
    assert await api.read(path, by="viewer") == made
    staging = api.platform.acme.environment("shop/staging")
    assert made == {
        "id": made["id"],
        "name": "Backup",
        "project": {"id": api.platform.acme.projects["shop"].public_id, "name": "Shop", "slug": "shop"},
        "environment": {"id": staging.public_id, "name": "Staging", "slug": "staging"},
        "state": "new",
        "since": made["created_at"],
        "period_seconds": None,
        "cron": "0 3 * * *",
        "timezone": "Europe/Oslo",
        "grace_seconds": 0,
        "max_runtime_seconds": 3600,
        "failures_before_down": 1,
        "failures_in_row": 0,
        "open_runs": 0,
        "last_signal_at": None,
        "last_success_at": None,
        "due_at": None,
        "created_at": made["created_at"],
    }
    assert is_well_formed(key["key"], CredentialKind.MONITOR_KEY)
    secret = ping_key["key"]
    assert ping_key["urls"] == {
        "success": f"/ping/{secret}",
        "start": f"/ping/{secret}/start",
        "failure": f"/ping/{secret}/fail",
    }
    for entry, kind in (
        (await find_key(api, key["key"]), CredentialKind.MONITOR_KEY),
        (await find_key(api, secret), CredentialKind.PING_KEY),
    ):
        assert entry is not None
        assert (entry.kind, entry.monitor) == (kind, f"heartbeat/{made['id']}")
        acme = api.platform.acme
        assert (entry.account_id, entry.project_id, entry.environment_id, entry.limit) == (
            acme.account.public_id,
            acme.projects["shop"].public_id,
            staging.public_id,
            RateLimit(10, 20),
        )
    async with api.platform.sessions() as session:
        state = await session.get_one(HeartbeatState, made["id"])
    assert (state.deadline_ms, state.version) == (None, 0)
    assert await api.audit(3) == [
        ("ping-key.create", f"ping-key {ping_key['id']}"),
        ("monitor-key.create", f"monitor-key {key['id']}"),
        ("heartbeat.create", f"heartbeat {made['id']}"),
    ]


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, {"name": "is required; must be a string of 1 to 100 characters"}),
        ({"name": " \t "}, {"name": "must be 1 to 100 printable characters"}),
        ({"period_seconds": None}, {"period_seconds": "is required unless cron is given"}),
        ({"cron": "0 3 * * *"}, {"cron": "must be left out if period_seconds is given"}),
        ({"period_seconds": 0}, {"period_seconds": "must be a whole number from 1 to 31,622,400 or null"}),
        (
            {"period_seconds": None, "cron": "0 3 * *"},
            {"cron": "'0 3 * *' is no cron expression of five fields"},
        ),
        ({"period_seconds": None, "cron": "0 0 */31 * 1#5"}, {"cron": "'0 0 */31 * 1#5' never comes"}),
        (
            {"name": "a\nb", "timezone": "Mars", "period_seconds": None, "cron": "* * * * 9"},
            {
                "name": "",
                "timezone": "'Mars' is no time zone. Use an IANA name, like Europe/Oslo",
                "cron": "",
            },
        ),
        (
            {"grace_seconds": -1, "max_runtime_seconds": 0, "failures_before_down": 1001},
            {"grace_seconds": "", "max_runtime_seconds": "", "failures_before_down": ""},
        ),
    ],
    ids=str,
)
async def test_invalid_heartbeats(shared_api: Api, body: dict[str, Any], errors: dict[str, str]) -> None:
    """An empty message stands for any message."""
    whole = {"name": "backup", "period_seconds": 3600, **body} if body else {"period_seconds": 3600}
    refused = await shared_api.expect(
        (422, "validation-failed"), "POST", f"{environment_of(shared_api)}/heartbeats", whole
    )
    found = {error["field"]: error["message"] for error in refused.json()["errors"]}
    assert found.keys() == errors.keys()
    assert {name: message for name, message in found.items() if errors[name]} == {
        name: message for name, message in errors.items() if message
    }


@pytest.mark.both_databases
async def test_names_are_unique_in_an_environment(api: Api) -> None:
    first = await create(api)
    body = {"name": "backup", "period_seconds": 60}
    await api.expect((409, "name-taken"), "POST", f"{environment_of(api)}/heartbeats", body)
    assert (
        await api.call("POST", f"{environment_of(api, 'shop/production')}/heartbeats", body)
    ).status == 201
    other = await create(api, name="other")
    await api.expect((409, "name-taken"), "PATCH", f"{HEARTBEATS}/{other['id']}", {"name": "backup"})
    assert (await api.call("PATCH", f"{HEARTBEATS}/{first['id']}", {"name": " backup "})).status == 200


async def test_number_of_heartbeats_of_an_account_is_limited(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats of other accounts do not count."""
    monkeypatch.setattr(limits, "MAX_MONITORS", 2)
    await create(api)
    refused = await api.expect(
        (409, "conflict"), "POST", f"{environment_of(api)}/heartbeats", {"name": "x", "period_seconds": 60}
    )
    assert refused.json()["detail"] == "The account has 2 heartbeats, which is the limit: remove some first."


async def test_secrets_of_a_repeated_creation(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    body = {"name": "backup", "period_seconds": 60}
    path = f"{environment_of(api)}/heartbeats"
    first = await api.call("POST", path, body, headers=headers)
    again = await api.call("POST", path, body, headers=headers)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.data == first.data
    stored = str(await api.platform.contents())
    assert first.data["key"]["key"] not in stored
    assert first.data["ping_key"]["key"] not in stored


async def test_change(api: Api) -> None:
    path = nightly(api)
    read = await api.call("GET", path, by="viewer")
    changes = {"name": "weekly", "cron": "0 3 * * 1", "timezone": "Europe/Oslo", "failures_before_down": 3}
    changed = await api.call(
        "PATCH", path, changes, by="deployer", headers={"If-Match": read.headers["ETag"]}
    )
    assert changed.data == {**read.data, **changes, "period_seconds": None}
    assert changed.headers["ETag"] == (await api.call("GET", path)).headers["ETag"] != read.headers["ETag"]
    await api.expect(
        (412, "precondition-failed"), "PATCH", path, {}, headers={"If-Match": read.headers["ETag"]}
    )
    back = await api.call("PATCH", path, {"period_seconds": 60})
    assert (back.data["period_seconds"], back.data["cron"], back.data["timezone"]) == (
        60,
        None,
        "Europe/Oslo",
    )
    before = await api.platform.contents()
    assert (await api.call("PATCH", path, {"period_seconds": 60})).status == 200
    assert await api.platform.contents() == before
    for body, fields in (
        ({"period_seconds": 60, "cron": "0 3 * * *"}, ["cron"]),
        ({"cron": "x"}, ["cron"]),
        ({"timezone": "Mars", "name": "\t"}, ["name", "timezone"]),
    ):
        assert (await api.expect((422, "validation-failed"), "PATCH", path, body)).fields == fields
    assert [action for action, _ in await api.audit(2)] == ["heartbeat.set", "heartbeat.set"]
    async with api.platform.sessions() as session:
        details = (
            select(AuditEntry.details).where(AuditEntry.action == "heartbeat.set").order_by(AuditEntry.id)
        )
        first = json.loads((await session.execute(details.limit(1))).scalar_one())
    assert first == {
        "environment": api.platform.acme.environment("shop/production").public_id,
        "name": {"from": "nightly", "to": "weekly"},
        "period_seconds": {"from": 3600, "to": None},
        "cron": {"from": None, "to": "0 3 * * 1"},
        "timezone": {"from": "UTC", "to": "Europe/Oslo"},
        "failures_before_down": {"from": 1, "to": 3},
    }


@pytest.mark.both_databases
async def test_concurrent_changes_of_different_settings_are_all_kept(api: Api) -> None:
    changes = {"grace_seconds": 1, "max_runtime_seconds": 2, "failures_before_down": 3, "period_seconds": 4}
    await asyncio.gather(*(api.call("PATCH", nightly(api), {name: value}) for name, value in changes.items()))
    heartbeat = await api.read(nightly(api))
    assert {name: heartbeat[name] for name in changes} == changes


async def test_a_new_schedule_applies_at_once(api: Api) -> None:
    """The state changes even though no signal arrives."""
    async with api.platform.sessions() as session, session.begin():
        await session.execute(
            update(HeartbeatState).values(
                state="up", last_signal_ms=T0, last_end_ms=T0, due_ms=T0, deadline_ms=T0
            )
        )
    changed = await api.call("PATCH", nightly(api), {"period_seconds": 7200})
    assert changed.data["state"] == "up"
    assert changed.data["due_at"] > changed.data["last_signal_at"] == "2026-03-25T10:00:00.000Z"


async def test_pause_and_resume(api: Api) -> None:
    path = nightly(api)
    paused = await api.call("POST", f"{path}/pause", by="deployer")
    assert (paused.status, paused.data["state"]) == (200, "paused")
    assert (await api.call("POST", f"{path}/pause")).data == paused.data
    resumed = await api.call("POST", f"{path}/resume", by="deployer")
    assert resumed.data["state"] == "new"
    assert (await api.call("POST", f"{path}/resume")).data == resumed.data
    number = paused.data["id"]
    assert await api.audit(3) == [
        ("heartbeat.resume", f"heartbeat {number}"),
        ("heartbeat.pause", f"heartbeat {number}"),
        *(await api.audit(3))[2:],
    ]


async def test_remove(api: Api) -> None:
    made = await create(api)
    path = f"{HEARTBEATS}/{made['id']}"
    removed = await api.call("DELETE", path, by="deployer")
    assert removed.data == {"id": made["id"], "name": "backup", "keys": 2}
    assert await find_key(api, made["key"]["key"]) is None
    assert await find_key(api, made["ping_key"]["key"]) is None
    await api.expect((404, "not-found"), "DELETE", path)
    assert await api.audit(1) == [("heartbeat.remove", f"heartbeat {made['id']}")]
    # The number is not used again, so that late signals reach no other heartbeat.
    assert (await create(api))["id"] > made["id"]


@pytest.mark.both_databases
async def test_concurrent_requests(api: Api) -> None:
    """One of two creations with the same name succeeds. Concurrent removals, changes and new keys are serialized."""
    body = {"name": "twice", "period_seconds": 60}
    made = await asyncio.gather(
        *(api.call("POST", f"{environment_of(api)}/heartbeats", body) for _ in range(3))
    )
    assert sorted(response.status for response in made) == [201, 409, 409]
    path = nightly(api)
    ended = await asyncio.gather(
        api.call("DELETE", path),
        api.call("DELETE", path),
        api.call("PATCH", path, {"period_seconds": 60}),
        api.call("POST", f"{path}/pause"),
        api.call("POST", f"{path}/keys"),
        api.call("POST", f"{path}/ping-keys"),
    )
    assert sorted(response.status for response in ended[:2]) == [200, 404]
    assert {response.status for response in ended[2:]} <= {200, 201, 404}
    for response in ended[4:]:
        if response.status == 201:
            assert await find_key(api, response.data["key"]) is None


@pytest.mark.both_databases
async def test_list(api: Api) -> None:
    staging, shop = api.platform.acme.environment("shop/staging"), api.platform.acme.projects["shop"]
    names = [(await create(api, name=f"job {n}"))["name"] for n in range(3)]
    hidden = await api.call(
        "POST", f"{environment_of(api, 'blog/staging')}/heartbeats", {"name": "hidden", "period_seconds": 60}
    )
    everything = ["hidden", *reversed(names), "nightly"]
    assert [each["name"] for each in await api.read_all(HEARTBEATS)] == everything
    # Members see only the projects in which they have a role.
    assert [each["name"] for each in await api.read(HEARTBEATS, by="viewer")] == everything[1:]
    assert await api.read(HEARTBEATS, by="stranger") == []
    await api.call("POST", f"{HEARTBEATS}/{hidden.data['id']}/pause")
    for query, found in (
        (f"environment={staging.public_id}", everything[1:4]),
        (f"project={shop.id}", everything[1:]),
        (f"project={shop.public_id}&name=job%201", ["job 1"]),
        ("name=job", []),
        ("state=paused", ["hidden"]),
        (f"state=new&environment={staging.id}", everything[1:4]),
    ):
        assert [each["name"] for each in await api.read(f"{HEARTBEATS}?{query}")] == found, query


async def test_list_while_heartbeats_are_added(api: Api) -> None:
    for n in range(3):
        await create(api, name=f"job {n}")
    first = (await api.call("GET", f"{HEARTBEATS}?limit=2")).json()
    await create(api, name="added")
    second = (await api.call("GET", f"{HEARTBEATS}?limit=2&cursor={first['next_cursor']}")).json()
    assert [each["name"] for each in first["data"] + second["data"]] == ["job 2", "job 1", "job 0", "nightly"]
    assert second["next_cursor"] is None


async def test_invalid_filters(shared_api: Api) -> None:
    api = shared_api
    for query, fields in (
        ("state=gone", ["state"]),
        ("nmae=x", ["nmae"]),
        ("name=a&name=b", ["name"]),
        ("name=%00", ["name"]),
        ("cursor=abc", ["cursor"]),
    ):
        refused = await api.call("GET", f"{HEARTBEATS}?{query}")
        assert (refused.problem, refused.fields) == ((422, "validation-failed"), fields)
    others = api.platform.other
    for query in (
        f"project={others.projects['shop'].public_id}",
        f"environment={others.environment('shop/staging').id}",
        "project=x",
    ):
        assert (await api.call("GET", f"{HEARTBEATS}?{query}")).problem == (404, "not-found")
    blog = api.platform.acme.projects["blog"].id
    refused = await api.call("GET", f"{HEARTBEATS}?project={blog}", by="viewer")
    assert refused.problem == (403, "deploy-not-allowed")


async def _add_runs(api: Api, *runs: dict[str, Any]) -> None:
    assert api.platform.acme.heartbeat is not None
    number = api.platform.acme.heartbeat.id
    async with api.platform.sessions() as session, session.begin():
        session.add_all(HeartbeatRun(**{"heartbeat_id": number, **run}) for run in runs)


async def test_runs(api: Api) -> None:
    path = f"{nightly(api)}/runs"
    assert await api.read(path) == []
    await _add_runs(
        api,
        {"run_id": RUN.format(1), "first_ms": T0, "started_ms": T0, "failed_ms": T0 + 1500, "exit_status": 3}
        | {"output": "no space left\n"},
        {"run_id": RUN.format(2), "first_ms": T0 + 1, "started_ms": T0 + 1, "timed_out_ms": T0 + 61},
        {"run_id": RUN.format(3), "first_ms": T0 + 2, "succeeded_ms": T0 + 2},
        {"run_id": RUN.format(4), "first_ms": T0 + 3, "started_ms": T0 + 3},
    )
    runs = await api.read(path, by="viewer")
    assert [(run["outcome"], run["duration_seconds"], run["has_output"]) for run in runs] == [
        ("open", None, False),
        ("succeeded", None, False),
        ("timed_out", 0.06, False),
        ("failed", 1.5, True),
    ]
    failed = await api.read(f"{path}/{RUN.format(1).upper()}", by="viewer")
    assert failed == {
        "run_id": RUN.format(1),
        "outcome": "failed",
        "first_signal_at": "2026-03-25T10:00:00.000Z",
        "started_at": "2026-03-25T10:00:00.000Z",
        "ended_at": "2026-03-25T10:00:01.500Z",
        "duration_seconds": 1.5,
        "exit_status": 3,
        "has_output": True,
        "output": "no space left\n",
    }
    for run_id in (RUN.format(9), "x", "%00", "1"):
        assert (await api.call("GET", f"{path}/{run_id}")).problem == (404, "not-found")


@pytest.mark.both_databases
async def test_pages_of_runs(api: Api) -> None:
    """Runs of the same millisecond are neither repeated nor lost, and runs that are added do not move the pages."""
    path = f"{nightly(api)}/runs"
    times = [T0 + 3, *[T0 + 2] * 5, T0 + 1]
    expected = [RUN.format(n) for n in range(len(times))]
    await _add_runs(
        api, *({"run_id": run_id, "first_ms": at} for run_id, at in zip(expected, times, strict=True))
    )
    assert [run["run_id"] for run in await api.read_all(path)] == expected
    first = (await api.call("GET", f"{path}?limit=3")).json()
    await _add_runs(api, *({"run_id": RUN.format(n), "first_ms": T0 + n} for n in (100, 101)))
    rest = (await api.call("GET", f"{path}?limit=9&cursor={first['next_cursor']}")).json()
    assert [run["run_id"] for run in first["data"] + rest["data"]] == expected
    # A cursor of another list, or an altered cursor.
    cursor = first["next_cursor"]
    for other in (cursor[:-1], cursor[:-1] + ("A" if cursor[-1] != "A" else "B")):
        assert (await api.call("GET", f"{path}?cursor={other}")).fields == ["cursor"]
    made = await create(api)
    assert (await api.call("GET", f"{HEARTBEATS}/{made['id']}/runs?cursor={cursor}")).fields == ["cursor"]
