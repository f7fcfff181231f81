"""The net change of a batch of events on the open incidents, as a table."""

import pytest

from notifications.incidents.apply_events import Event, Incident, apply_events
from pipeline_contracts.alert_kinds import EventState

_LATE, _DOWN = "heartbeat.late", "heartbeat.down"


def _event(kind: str, state: EventState, at_ms: int = 0, **facts: object) -> Event:
    return Event((1, 2, 3), kind, "7", state, at_ms, facts)


@pytest.mark.parametrize(
    ("open_kind", "events", "changes"),
    [
        pytest.param(None, [(_DOWN, "firing")], ["opened"], id="opens"),
        pytest.param(None, [(_LATE, "firing"), (_DOWN, "firing")], ["opened"], id="escalates in the batch"),
        pytest.param(None, [(_DOWN, "firing"), (_DOWN, "resolved")], ["passed"], id="passes"),
        pytest.param(None, [(_DOWN, "resolved")], [], id="nothing to resolve"),
        pytest.param(_DOWN, [(_DOWN, "firing")], ["seen"], id="repeats"),
        pytest.param(_LATE, [(_DOWN, "firing")], ["escalated"], id="escalates"),
        pytest.param(
            _LATE, [(_DOWN, "firing"), (_DOWN, "firing")], ["escalated"], id="escalates and repeats"
        ),
        pytest.param(_LATE, [(_DOWN, "firing"), (_DOWN, "resolved")], ["resolved"], id="escalates and ends"),
        pytest.param(_DOWN, [(_LATE, "resolved")], ["resolved"], id="ends under its former kind"),
        pytest.param(
            _DOWN, [(_DOWN, "resolved"), (_DOWN, "firing")], ["resolved", "opened"], id="ends and opens again"
        ),
        pytest.param(
            _DOWN,
            [(_DOWN, "resolved"), (_DOWN, "firing"), (_DOWN, "resolved")],
            ["resolved", "passed"],
            id="ends and passes",
        ),
        pytest.param(_DOWN, [(_DOWN, "info"), (_DOWN, "info")], ["info", "info"], id="events without an end"),
    ],
)
def test_the_net_change(
    open_kind: str | None, events: list[tuple[str, EventState]], changes: list[str]
) -> None:
    present = {}
    if open_kind is not None:
        first = _event(open_kind, "firing")
        present = {first.key: Incident(first, first, "seen", 5)}
    changed = apply_events([_event(kind, state, at) for at, (kind, state) in enumerate(events)], present)
    assert [incident.change for incident in changed] == changes


def test_facts_and_severity_are_from_the_last_event_and_kept_at_the_end() -> None:
    first = _event(_DOWN, "firing", heartbeat="nightly", deployment_before={"number": 3})
    incident = Incident(first, first, "seen", 5)
    again = _event(_DOWN, "firing", 1, heartbeat="nightly", failures_in_row=2, severity="info")
    apply_events([again], {first.key: incident})
    assert incident.last.severity == "info"
    assert incident.last.facts["deployment_before"] == {"number": 3}
    apply_events([_event(_DOWN, "resolved", 2, last_success_ms=1)], {first.key: incident})
    assert incident.last.facts["heartbeat"] == "nightly"
    assert incident.last.facts["last_success_ms"] == 1
    assert incident.last.kind == _DOWN
