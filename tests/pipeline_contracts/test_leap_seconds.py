"""Leap seconds become the following second; nothing else changes."""

import json

import pytest

from ingest_edge.decoders.telemetry import replace_leap_seconds
from pipeline_contracts.leap_seconds import following_second, replace_leap_second


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2016-12-31T23:59:60.123456Z", "2017-01-01T00:00:00.123456Z"),
        ("2017-01-01T00:59:60+01:00", "2017-01-01T01:00:00+01:00"),
        ("2016-12-31t23:59:60z", "2017-01-01T00:00:00z"),
        ("2016-12-31 18:59:60-05:00", "2016-12-31T19:00:00-05:00"),
        ("2024-02-29T23:59:60Z", "2024-03-01T00:00:00Z"),
        ("2016-12-31T23:59:59Z", None),
        ("2016-12-31T23:59:61Z", None),
        ("2016-12-31T23:60:60Z", None),
        ("2016-02-30T23:59:60Z", None),
        ("2016-12-31T23:59:60", None),
        ("2016-12-31T23:59:60.Z", None),
        ("9999-12-31T23:59:60Z", None),
        ("at 2016-12-31T23:59:60Z", None),
        ("٢٠١٦-12-31T23:59:60Z", None),
    ],
)
def test_leap_second_becomes_the_following_second(sent, stored):
    assert following_second(sent) == stored


LEAP = '"2016-12-31T23:59:60Z"'
NEXT = '"2017-01-01T00:00:00Z"'


@pytest.mark.parametrize(
    ("body", "replaced"),
    [
        (f'{{"at": {LEAP}, "n": 1.50}}', f'{{"at":{NEXT},"n":1.50}}'),
        # Only this member: others may contain any text.
        (
            f'{{"at":{LEAP},"b":{{"at":{LEAP}}},"c":{LEAP}}}',
            f'{{"at":{NEXT},"b":{{"at":{LEAP}}},"c":{LEAP}}}',
        ),
        # The last of equal members counts.
        (f'{{"at":1,"at":{LEAP}}}', f'{{"at":{NEXT}}}'),
        (f'{{"b":{LEAP}}}', None),
        (f'{{"at":[{LEAP}]}}', None),
        (f'[{{"at":{LEAP}}}]', None),
        (f'{{"at":{LEAP}', None),
        ('{"at":"2016-12-31T23:59:59Z","b":":60"}', None),
    ],
)
def test_replaces_a_leap_second_in_one_member(body, replaced):
    found = replace_leap_second(body.encode(), "at")
    assert found == (None if replaced is None else replaced.encode())


def test_replaces_leap_seconds_in_each_event():
    events = [f'{{"at":{LEAP},"n":1e400}}', '{"at":null}', f'{{"x":{LEAP}}}', "7", f'{{"at":{LEAP}}}']
    body = f'{{"batch_id":"b","x":[],"events":[{",".join(events)}]}}'.encode()
    replaced = replace_leap_seconds(body, "at", 5)
    assert replaced is not None
    expected = '{"batch_id":"b","events":[{"at":%s,"n":1e400},{"at":null},{"x":%s},7,{"at":%s}]}'
    assert replaced.decode() == expected % (NEXT, LEAP, NEXT)
    assert replace_leap_seconds(replaced, "at", 5) is None
    assert replace_leap_seconds(body, "at", 4) is None
    assert replace_leap_seconds(b'{"batch_id":":60"}', "at", 5) is None
    assert json.loads(replace_leap_seconds(b'{"events":[{"at":%s}]}' % LEAP.encode(), "at", 1) or b"") == {
        "events": [{"at": NEXT.strip('"')}]
    }
