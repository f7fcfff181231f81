"""The phases of a condition, and the effect of a reading. Pure."""

from datetime import UTC, datetime, timedelta

import pytest

from control_workers.alert_scan.conditions import Event, Observed, Reading, Scope, failed
from control_workers.alert_scan.judge import Changes, Remembered, judge
from control_workers.alert_scan.phases import Limits, Phase, State, begin, evaluate

_NOW = datetime(2030, 5, 31, 12, tzinfo=UTC)
_ABOVE = Limits(10.0, 5.0, pending=timedelta(seconds=60))
_BELOW = Limits(10.0, 20.0, is_above=False, pending=timedelta(seconds=60))
_AT_ONCE = Limits(10.0, 10.0)

# Limits, and (seconds since the start, value, phase afterwards with an event) of each evaluation.
_COURSES: dict[str, tuple[Limits, list[tuple[int, float | None, str]]]] = {
    "fires after the pending time, ends at the recovery value": (
        _ABOVE,
        [
            (0, 10, "ok"),
            (30, 10.1, "pending"),
            (60, 11, "pending"),
            (90, 11, "firing!"),
            (120, 99, "firing"),
            (150, 7, "firing"),
            (180, 5, "ok!"),
            (210, 11, "pending"),
        ],
    ),
    "a value that returns in time has not fired": (
        _ABOVE,
        [(0, 11, "pending"), (30, 10, "ok"), (60, 11, "pending"), (90, 11, "pending"), (120, 11, "firing!")],
    ),
    "fires at once without a pending time": (_AT_ONCE, [(0, 11, "firing!"), (30, 10, "ok!")]),
    "below": (
        _BELOW,
        [(0, 10, "ok"), (30, 9, "pending"), (90, 0, "firing!"), (120, 19, "firing"), (150, 20, "ok!")],
    ),
    "an unknown value keeps each phase": (
        _ABOVE,
        [
            (0, None, "ok"),
            (30, 11, "pending"),
            (60, None, "pending"),
            (90, None, "pending"),
            # Only 30 s of the pending time were seen.
            (120, 11, "pending"),
            (150, 11, "firing!"),
            (180, None, "firing"),
            (9999, None, "firing"),
            (10_029, 0, "ok!"),
        ],
    ),
    "a pause of the scan does not count as pending time": (
        _ABOVE,
        [(0, 11, "pending"), (30, 11, "pending"), (3600, 11, "pending"), (3630, 11, "firing!")],
    ),
    "a pause of the scan ends nothing": (
        _ABOVE,
        [(0, 11, "pending"), (60, 11, "firing!"), (7200, 11, "firing"), (7230, 6, "firing")],
    ),
    "a recovery value beyond the threshold never ends and fires at once": (
        Limits(10.0, 50.0),
        [(0, 20, "firing!"), (30, 20, "firing"), (60, 10, "ok!")],
    ),
}


@pytest.mark.parametrize("name", _COURSES)
def test_courses(name: str) -> None:
    limits, course = _COURSES[name]
    state = begin(_NOW)
    seen = []
    for seconds, value, _ in course:
        state, turn = evaluate(state, limits, value, _NOW + timedelta(seconds=seconds))
        assert turn in (None, "resolved" if state.phase == "ok" else "firing")
        seen.append(state.phase + ("" if turn is None else "!"))
    assert seen == [expected for *_, expected in course]


_SCOPE = Scope(1, 2, 3)


def _observed(key: str, value: float | None, *, keeps_state: bool = False) -> Observed:
    return Observed(
        key, _SCOPE, "queue.wait", key, _AT_ONCE, value, {"target": "mail"}, keeps_state=keeps_state
    )


def _remembered(key: str, phase: Phase) -> Remembered:
    return Remembered(State(phase, _NOW, _NOW, 11.0), _SCOPE, "queue.wait", key)


def _judge(reading: Reading, **phases: Phase) -> Changes:
    changes = Changes()
    states = {f"wait {key}": _remembered(f"wait {key}", phase) for key, phase in phases.items()}
    judge(reading, states | {"other 1": _remembered("other 1", "firing")}, _NOW, changes)
    return changes


def test_conditions_that_no_longer_exist_end_and_those_that_cannot_be_read_stay() -> None:
    gone = _judge(Reading("wait ", []), a="firing", b="pending")
    assert gone.deleted == {"wait a", "wait b"}
    assert gone.events == [Event(_SCOPE, "queue.wait", "wait a", "resolved", {"reason": "removed"}, _NOW)]

    unread = _judge(failed("wait "), a="firing", b="pending")
    assert not unread.events
    assert not unread.deleted
    assert {key: each.state.phase for key, each in unread.written.items()} == {"wait b": "pending"}


def test_state_is_stored_if_it_is_not_ok_or_shown_to_people() -> None:
    observed = [
        _observed("wait a", 1),
        _observed("wait b", 11),
        _observed("wait c", 1, keeps_state=True),
        _observed("wait d", None),
    ]
    changes = _judge(Reading("wait ", observed), a="firing")
    assert changes.deleted == {"wait a"}
    assert {key: (each.state.phase, each.state.value) for key, each in changes.written.items()} == {
        "wait b": ("firing", 11),
        "wait c": ("ok", 1),
    }
    assert [(event.subject, event.state) for event in changes.events] == [
        ("wait a", "resolved"),
        ("wait b", "firing"),
    ]
    facts = dict(changes.events[1].facts)
    assert facts.pop("since_ms")
    assert facts == {
        "target": "mail",
        "value": 11,
        "threshold": 10.0,
        "recovery": 10.0,
        "is_above": True,
        "pending_seconds": 0.0,
    }
