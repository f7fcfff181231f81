"""Thresholds and notification rules that a configuration creates, changes and removes, on both databases."""

import json
from typing import Any

from sqlalchemy import delete, select

from control_domain.accounts.roles import Right
from control_domain.configurations.addresses import RULES
from control_domain.configurations.resources import FIELDS
from control_domain.configurations.reviews import find_required_right
from control_domain.tables.notifications import (
    AlertEvent,
    AlertState,
    AlertThreshold,
    NotificationChannel,
    NotificationRule,
)
from tests.support.changed_project import PRODUCTION, ChangedProject
from tests.support.managed_project import NOW

SLOW = (*PRODUCTION, "thresholds", "slow")
ON_CALL = (*RULES, "on-call")
LATENCY: dict[str, Any] = {"kind": "service.latency", "target": "checkout", "threshold": 800}


async def _add(configured: ChangedProject, *rows: Any) -> None:
    async with configured.managed.engines.sessions() as session, session.begin():
        session.add_all(rows)


async def _add_channel(configured: ChangedProject, name: str) -> None:
    account = configured.managed.account.id
    channel = NotificationChannel(
        public_id=f"chn_{name}", account_id=account, name=name, type="slack", settings="{}", created_at=NOW
    )
    await _add(configured, channel)


async def _read(configured: ChangedProject, column: Any) -> Any:
    async with configured.managed.engines.sessions() as session:
        return (await session.execute(select(column))).scalar_one()


async def test_a_threshold_is_created_changed_and_removed(configured: ChangedProject) -> None:
    create = await configured.plan_one(SLOW, LATENCY)
    assert find_required_right([create.to_json()]) is Right.MANAGE
    await configured.apply_step(create)
    made = {**FIELDS["threshold"], **LATENCY, "recovery": 800, "severity": "warning"}
    assert await configured.fields(SLOW) == made
    await configured.repeated(create)
    assert await configured.plan({SLOW: LATENCY}) == []
    change = await configured.plan_one(SLOW, {"recovery": 600.5, "window": "10m", "severity": "critical"})
    await configured.apply_step(change)
    await configured.repeated(change)
    assert await configured.fields(SLOW) == {
        **made,
        "recovery": 600.5,
        "window": "10m",
        "severity": "critical",
    }
    # The incident ends with its threshold.
    number = await _read(configured, AlertThreshold.id)
    await _add(configured, AlertState(key=f"threshold {number}", phase="firing", since=NOW, evaluated_at=NOW))
    remove = await configured.plan_one(SLOW)
    await configured.apply_step(remove)
    await configured.repeated(remove)
    assert await configured.fields(SLOW) is None
    assert await _read(configured, AlertEvent.state) == "resolved"
    assert [action for action, _ in await configured.audited()] == [
        "threshold.create",
        "threshold.set",
        "threshold.remove",
    ]


async def test_a_threshold_that_changed_since_the_plan_is_refused(configured: ChangedProject) -> None:
    await configured.plan_and_apply(SLOW, LATENCY)
    change = await configured.plan_one(SLOW, {"threshold": 900})
    remove = await configured.plan_one(SLOW)
    await configured.plan_and_apply(SLOW, {"threshold": 1000})
    message = "environments.production.thresholds.slow was changed meanwhile: threshold; make a new review."
    assert await configured.refused(change) == message
    assert await configured.refused(remove) == message
    await configured.plan_and_apply(SLOW)
    assert "was removed meanwhile" in await configured.refused(change)


async def test_a_rule_is_created_changed_and_removed(configured: ChangedProject) -> None:
    await _add_channel(configured, "ops")
    await _add_channel(configured, "team")
    owner = configured.managed.people["owner"]
    wanted = {
        "environment": "production",
        "kinds": ["deployment.failed", "heartbeat"],
        "channels": ["ops"],
        "people": [owner.email],
    }
    create = await configured.plan_one(ON_CALL, wanted)
    assert find_required_right([create.to_json()]) is Right.MANAGE
    await configured.apply_step(create)
    await configured.repeated(create)
    assert await configured.fields(ON_CALL) == {**FIELDS["rule"], **wanted}
    assert await configured.plan({ON_CALL: wanted}) == []
    stored = json.loads(await _read(configured, NotificationRule.recipients))
    assert stored[1] == f"person {owner.id}"
    change = await configured.plan_one(
        ON_CALL, {"channels": ["ops", "team"], "kinds": None, "environment": None}
    )
    await configured.apply_step(change)
    await configured.repeated(change)
    changed = {**FIELDS["rule"], "channels": ["ops", "team"], "people": [owner.email]}
    assert await configured.fields(ON_CALL) == changed
    remove = await configured.plan_one(ON_CALL)
    await configured.apply_step(remove)
    await configured.repeated(remove)
    assert await configured.fields(ON_CALL) is None
    assert [action for action, _ in await configured.audited()] == [
        "notification-rule.create",
        "notification-rule.set",
        "notification-rule.remove",
    ]


async def test_a_recipient_that_is_removed_since_the_plan_is_named(configured: ChangedProject) -> None:
    await _add_channel(configured, "ops")
    create = await configured.plan_one(ON_CALL, {"channels": ["ops"]})
    async with configured.managed.engines.sessions() as session, session.begin():
        await session.execute(delete(NotificationChannel))
    assert await configured.refused(create) == (
        "notifications.rules.on-call cannot be created: there is no channel ops any more; make a new review."
    )


async def test_rules_of_the_account_are_not_in_the_document(configured: ChangedProject) -> None:
    account = configured.managed.account.id
    rule = NotificationRule(account_id=account, name="all", recipients="[]", created_at=NOW)
    await _add(configured, rule)
    assert await configured.fields((*RULES, "all")) is None
    assert await configured.plan(deleted=[(*RULES, "all")]) == []
    assert await _read(configured, NotificationRule.name) == "all"
