"""The outbox of alert events: an event is written in the transaction of the change that it reports."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import AlertEvent
from pipeline_contracts.alert_kinds import ALERT_KINDS, EventState
from pipeline_contracts.times import to_epoch_ms

_MAX_TEXT = 1000


def record_alert_event(
    session: AsyncSession,
    kind: str,
    subject: str,
    state: EventState,
    at: datetime,
    *,
    account_id: int,
    project_id: int | None = None,
    environment_id: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Add an event in the transaction of the change itself: people are notified if and only if the change is
    committed.

    `kind` is a name in `ALERT_KINDS`; `subject` is unique within the environment and the family of the kind. The
    family's module in `notifications.descriptions` reads `facts`, which must contain no secret.
    """
    session.add(
        AlertEvent(
            account_id=account_id,
            project_id=project_id,
            environment_id=environment_id,
            kind=ALERT_KINDS[kind].name,
            subject=subject[:160],
            state=state,
            at_ms=to_epoch_ms(at),
            facts=_write_facts(facts or {}),
        )
    )


def _write_facts(facts: Mapping[str, Any]) -> str:
    """Return the facts as JSON: numbers that are not finite become null, and long texts of applications are cut."""
    return msgspec.json.encode(
        {name: value[:_MAX_TEXT] if isinstance(value, str) else value for name, value in facts.items()}
    ).decode()
