"""Concurrent decisions of two people about groups of exceptions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import UNSET
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.database import statements
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.telemetry import change_exception, statuses
from control_domain.telemetry.change_exception import (
    PreparedChange,
    StatusChange,
    apply_change,
    read_decisions,
)
from control_domain.telemetry.exceptions import Decisions, shown_status
from control_domain.telemetry.statuses import GroupStatus, Status, change_status, lock_status
from tests.control_api.management.conftest import Api

NOW = datetime.now(UTC)
_ACTOR = Actor("a test")


@pytest.mark.parametrize("prepared", ["postgres"], indirect=True)
async def test_a_row_that_is_removed_before_it_is_locked_is_inserted_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person opens the group, which removes its row, while another one is about to lock the row."""
    await _change(api, "a" * 16, "ignored")
    lock_row = statements.lock_row

    async def lock_late(*arguments: Any) -> bool:
        monkeypatch.setattr(statuses, "lock_row", lock_row)
        await _change(api, "a" * 16, "open")
        return await lock_row(*arguments)

    monkeypatch.setattr(statuses, "lock_row", lock_late)
    await _change(api, "a" * 16, "resolved")
    assert await _statuses(api) == {"a" * 16: "resolved"}


@pytest.mark.both_databases
async def test_at_the_limit_only_groups_that_were_read_and_not_changed_are_forgotten(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (statuses, change_exception):
        monkeypatch.setattr(module, "MAX_STATUSES", 4)
    acme = api.platform.acme
    target = acme.places["shop/production"]
    stored, gone, gone_too, changed = (f"{number:016x}" for number in range(4))
    for group in (stored, gone, gone_too, changed):
        await _change(api, group, "ignored", NOW - timedelta(days=1))

    async def read() -> Decisions:
        async with api.platform.sessions() as session:
            return await read_decisions(session, acme.account, target.environment)

    async def ignore(decisions: Decisions, group: str, forgotten: list[str]) -> None:
        prepared = PreparedChange(group, decisions, None, forgotten)
        change = StatusChange("ignored", UNSET)
        async with api.platform.sessions() as session, session.begin():
            await apply_change(
                session, acme.account, target, prepared, change, _ACTOR, NOW, lambda settings: None
            )

    # Both requests have read the database, and now query the column store.
    first, second = await read(), await read()
    await ignore(first, "a" * 16, [gone])
    await _change(api, changed, "resolved", NOW + timedelta(seconds=1))
    await ignore(second, "b" * 16, [gone, gone_too, changed])
    assert await _statuses(api) == {
        stored: "ignored",
        changed: "resolved",
        "a" * 16: "ignored",
        "b" * 16: "ignored",
    }


async def _change(api: Api, group: str, status: Status, now: datetime = NOW) -> None:
    target = api.platform.acme.places["shop/production"]
    async with api.platform.sessions() as session, session.begin():
        row = await lock_status(session, target, group, now)
        shown = shown_status(GroupStatus(row.status, row.resolved_at), None)  # type: ignore[arg-type]
        await change_status(
            session,
            target,
            row,
            status=status,
            shown_status=shown,
            assignee=UNSET,
            actor=_ACTOR,
            now=now,
        )


async def _statuses(api: Api) -> dict[str, str]:
    query = select(ExceptionStatus.group_id, ExceptionStatus.status)
    async with api.platform.sessions() as session:
        return {row.group_id: row.status for row in await session.execute(query)}
