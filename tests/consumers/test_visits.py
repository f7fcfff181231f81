"""Assigning events to visits."""

from consumers.visits import MAX_PAUSE_MS, MAX_VISIT_MS, Key, Visit, Visits

_SITE = 1
_T0 = 1_795_000_000_000


def key(visitor: int) -> Key:
    return (_SITE, visitor)


def place(visits: Visits, visitor: int, at_ms: int, before: int = 0, *, is_session: bool = False) -> Visit:
    return visits.assign(key(visitor), key(before) if before else None, _T0 + at_ms, is_session=is_session)


def test_events_within_half_an_hour_are_one_visit_and_later_ones_another() -> None:
    visits = Visits()
    first = place(visits, 7, 0)
    assert place(visits, 7, MAX_PAUSE_MS) is first
    assert place(visits, 7, 2 * MAX_PAUSE_MS) is first
    assert place(visits, 7, 3 * MAX_PAUSE_MS + 1) is not first
    assert place(visits, 8, 0) is not first


def test_a_late_event_joins_a_visit_within_half_an_hour() -> None:
    visits = Visits()
    first = place(visits, 7, 10 * MAX_PAUSE_MS)
    assert place(visits, 7, 9 * MAX_PAUSE_MS) is first
    assert first.first_ms == _T0 + 9 * MAX_PAUSE_MS
    assert place(visits, 7, 7 * MAX_PAUSE_MS) is not first


def test_between_two_visits_an_event_joins_the_newer_one_and_neither_is_merged() -> None:
    visits = Visits()
    older, newer = place(visits, 7, 0), place(visits, 7, MAX_PAUSE_MS + 60_000)
    assert older is not newer
    assert place(visits, 7, MAX_PAUSE_MS // 2) is newer


def test_a_visit_continues_over_midnight() -> None:
    visits = Visits()
    evening = place(visits, 7, 0)
    assert place(visits, 70, 60_000, before=7) is evening
    # This works even after the half hour, by the day's own hash.
    assert place(visits, 70, 60_000 + MAX_PAUSE_MS) is evening


def test_a_late_event_before_midnight_joins_the_visit_after_midnight() -> None:
    visits = Visits()
    after = place(visits, 70, 60_000, before=7)
    assert place(visits, 7, -60_000) is after


def test_session_is_one_visit_for_24_hours() -> None:
    visits = Visits()
    first = place(visits, 9, 0, is_session=True)
    assert place(visits, 9, MAX_VISIT_MS, is_session=True) is first
    assert place(visits, 9, MAX_VISIT_MS + 1, is_session=True) is not first


def test_no_visit_lasts_longer_than_24_hours() -> None:
    visits = Visits()
    first = place(visits, 7, 0)
    at_ms = 0
    while at_ms + MAX_PAUSE_MS <= MAX_VISIT_MS:
        at_ms += MAX_PAUSE_MS
        assert place(visits, 7, at_ms) is first
    assert place(visits, 7, at_ms + 60_000) is not first


def test_repeated_events_get_the_same_visit_ids() -> None:
    made = [
        [place(visits, 7, at_ms).visit_id for at_ms in (0, 60_000, 10 * MAX_PAUSE_MS)]
        for visits in (Visits(), Visits())
    ]
    assert made[0] == made[1]
    assert made[0][0] != made[0][2]


def test_undo_restores_the_state_before_the_chunk() -> None:
    visits = Visits()
    stays = place(visits, 7, 0)
    visits.begin_chunk()
    place(visits, 7, 60_000)
    place(visits, 8, 0, before=80)
    visits.undo()
    assert stays.last_ms == _T0
    assert len(visits) == 1
    assert place(visits, 7, MAX_PAUSE_MS + 60_000) is not stays


def test_a_stored_visit_is_known_once_under_all_its_keys() -> None:
    visits = Visits()
    kept = place(visits, 7, 0)
    visits.add_stored([key(7), key(70)], Visit(kept.visit_id, _T0 - 5, _T0 + 5))
    # The visit in memory is newer than the stored one.
    assert place(visits, 70, 60_000) is kept


def test_old_visits_are_dropped() -> None:
    visits = Visits()
    place(visits, 7, 0)
    place(visits, 8, MAX_PAUSE_MS)
    visits.drop_before(_T0 + 1)
    assert len(visits) == 1
