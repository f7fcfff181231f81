"""`PUT …/variables`: versions, changes that wait for approval, and secrecy of the values."""

import asyncio
import base64
import logging
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.versions import find_newest_variables
from tests.support.deploy_platform import Platform, Response, environment_path
from tests.support.serve_control import VARIABLE_KEYS

NOW = datetime.now(UTC)
NAME = "shop/production"


async def _put(
    platform: Platform, text: str, name: str = NAME, who: str = "owner", **options: Any
) -> Response:
    path = environment_path(platform.acme.places[name], "variables")
    token = platform.acme.token(who)
    return await platform.call("PUT", path, {"variables": text}, token=token, **options)


async def _sets(platform: Platform, name: str = NAME) -> list[VariableSet]:
    mine = VariableSet.environment_id == platform.acme.environment(name).id
    async with platform.sessions() as session:
        query = select(VariableSet).where(mine).order_by(VariableSet.id)
        return list((await session.execute(query)).scalars())


async def _changes(platform: Platform) -> list[VariableChange]:
    async with platform.sessions() as session:
        return list((await session.execute(select(VariableChange).order_by(VariableChange.id))).scalars())


def _open(platform: Platform, row: VariableSet, keys: SealingKeys = VARIABLE_KEYS) -> list[tuple[str, str]]:
    of = platform.acme.environment(NAME).public_id
    return list(keys.open(Sealed(row.key_id, row.sealed), of).items())


async def test_each_text_is_a_version_and_the_newest_applies(platform: Platform) -> None:
    answers = [
        await _put(platform, "B=1\n# none\nexport A='two words'\n"),
        await _put(platform, 'A="1\n2"', who="deployer"),
        await _put(platform, ""),
    ]
    assert [(answer.status, answer.json()) for answer in answers] == [
        (200, {"data": {"count": count}}) for count in (2, 1, 0)
    ]
    rows = await _sets(platform)
    assert [(row.version, row.count, row.key_id) for row in rows] == [
        (version, count, VARIABLE_KEYS.key_id) for version, count in ((1, 2), (2, 1), (3, 0))
    ]
    assert [_open(platform, row) for row in rows] == [[("B", "1"), ("A", "two words")], [("A", "1\n2")], []]
    people = platform.acme.people
    assert [row.set_by_id for row in rows] == [people[who].id for who in ("owner", "deployer", "owner")]
    async with platform.sessions() as session:
        environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
        present = await find_newest_variables(session, environment)
        assert present is not None
        assert present.version == 3
    # Versions are counted in each environment separately.
    await _put(platform, "A=1", "shop/staging")
    assert [row.version for row in await _sets(platform, "shop/staging")] == [1]


async def test_change_waits_for_approval(platform: Platform) -> None:
    await _put(platform, "A=1")
    await platform.change(NAME, variables_need_approval=True)
    answer = await _put(platform, "A=2\nB=2", who="deployer")
    [change] = await _changes(platform)
    assert (answer.status, answer.json()) == (
        202,
        {"data": {"status": "pending_approval", "change_id": change.id}},
    )
    assert (change.state, change.count, change.asked_by_id) == (
        "pending",
        2,
        platform.acme.people["deployer"].id,
    )
    assert [row.version for row in await _sets(platform)] == [1]


async def test_newer_change_supersedes_the_waiting_one(platform: Platform) -> None:
    await platform.change(NAME, variables_need_approval=True)
    ids = [(await _put(platform, f"A={n}")).data["change_id"] for n in range(3)]
    changes = await _changes(platform)
    assert [change.id for change in changes] == ids
    assert [(c.state, c.sealed is None, c.decided_at is None) for c in changes] == [
        ("superseded", True, False),
        ("superseded", True, False),
        ("pending", False, True),
    ]
    # A text that needs no approval replaces all variables too. A waiting change must not restore older variables.
    await platform.change(NAME, variables_need_approval=False)
    assert (await _put(platform, "A=now")).status == 200
    assert [change.state for change in await _changes(platform)] == ["superseded"] * 3


@pytest.mark.both_databases
async def test_hundred_concurrent_texts_are_hundred_versions(platform: Platform) -> None:
    answers = await asyncio.gather(*(_put(platform, f"N={n}") for n in range(100)))
    assert {(answer.status, answer.data["count"]) for answer in answers} == {(200, 1)}
    rows = await _sets(platform)
    assert [row.version for row in rows] == list(range(1, 101))
    assert {_open(platform, row)[0] for row in rows} == {("N", str(n)) for n in range(100)}


@pytest.mark.both_databases
async def test_one_of_many_concurrent_changes_waits(platform: Platform) -> None:
    await platform.change(NAME, variables_need_approval=True)
    answers = await asyncio.gather(*(_put(platform, f"N={n}") for n in range(50)))
    assert {answer.status for answer in answers} == {202}
    assert len({answer.data["change_id"] for answer in answers}) == 50
    changes = await _changes(platform)
    assert Counter(change.state for change in changes) == {"superseded": 49, "pending": 1}
    assert changes[-1].state == "pending"


async def test_values_appear_in_no_table_log_or_message(
    tmp_path: Path, platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """Checks an accepted text, a waiting change, a refused text and an internal error."""
    secret = "Zq9-unmistakable-secret-of-this-test-Zq9"
    answers = []
    with caplog.at_level(logging.DEBUG):
        answers.append(await _put(platform, f"PASSWORD={secret}\nCERT='{secret}'"))
        await platform.change(NAME, variables_need_approval=True)
        answers.append(await _put(platform, f"PASSWORD={secret}"))
        answers.append(await _put(platform, f"{secret}\nA='{secret}\nB=\"{secret}"))
        answers.append(await _put(platform, f"PASSWORD={secret}", headers={"Idempotency-Key": "k"}))
        platform.app.state.variable_keys = None
        async with platform.http.put(
            f"{platform.url}/api{environment_path(platform.acme.places[NAME], 'variables')}",
            json={"variables": f"PASSWORD={secret}"},
            headers={"Authorization": f"Bearer {platform.acme.token()}"},
        ) as fault:
            assert fault.status == 500
            answers.append(Response(fault.status, fault.headers, await fault.read()))
    assert [answer.status for answer in answers] == [200, 202, 422, 202, 500]
    told = b"".join(answer.body for answer in answers) + caplog.text.encode()
    stored = repr(await platform.contents()).encode()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("*.sqlite*"))
    assert bool(files) == (platform.engine.dialect.name == "sqlite")
    raw = secret.encode()
    for written in (
        raw,
        raw[4:-4],
        raw.hex().encode(),
        base64.b64encode(raw)[4:-4],
        secret.encode("utf-16-le"),
    ):
        assert written not in told
        assert written not in stored
        assert written not in files
    # The names are not secret.
    assert b"PASSWORD" in stored
