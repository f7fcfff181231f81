"""Lines of output as log events."""

from typing import Any

import pytest

from deployer.log_lines.lines import MAX_LINE_CHARACTERS, TRUNCATION_NOTE
from deployer.log_lines.masking import Mask
from deployer.output_logs.log_events import Printed, make_events
from deployer.output_logs.take_lines import Taken, take_lines

_AT = 1_764_000_000_000
_NOW = "2025-11-24T16:00:00.000Z"
_PRINTED = Printed("shop", "web", 1, 7)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"hello", {"title": "hello", "severity": "info", "timestamp": _NOW}),
        (b"\x1b[1;31mred\x1b[0m\x00 text \r", {"title": "red text"}),
        (b"10 %\r50 %\r100 %", {"title": "100 %"}),
        (b"caf\xc3\xa9 \xff", {"title": "café �"}),
        (b"INGEST=phr_ing_0123456789abcdef!", {"title": "INGEST=phr_ing_•••!"}),
        # The form in the injected variables, in which a digit precedes the key.
        (b"Authorization=Bearer%20phr_ing_0123456789abcdef", {"title": "Authorization=Bearer%20phr_ing_•••"}),
        (
            rb'{"msg":"phr\u005fing_0123456789abcdef","a":"phr_ing\u005f0123456789abcdef"}',
            {"title": "phr_ing_•••", "a": "phr_ing_•••"},
        ),
        (b'{"msg":"a","level":"ERROR"}', {"title": "a", "severity": "error"}),
        (b'{"message":"b","level":50,"pid":3}', {"title": "b", "severity": "error", "pid": 3}),
        (b'{"event":"c","level":"strange"}', {"title": "c", "severity": "info"}),
        (b'{"msg":"d","time":"2025-11-24T17:59:59+02:00"}', {"timestamp": "2025-11-24T15:59:59Z"}),
        # Times that are too old, in the future, or without a zone, and a text that is not a time.
        (b'{"msg":"e","time":"2025-11-20T15:59:59Z"}', {"timestamp": _NOW}),
        (b'{"msg":"f","time":"2035-11-20T15:59:59Z"}', {"timestamp": _NOW}),
        (b'{"msg":"g","time":"2025-11-24T15:59:59"}', {"timestamp": _NOW}),
        (b'{"msg":"h","time":"noon"}', {"timestamp": _NOW}),
        (b'{"msg":"i","trace_id":"0af7651916cd43dd"}', {"title": "i", "trace_id": "0af7651916cd43dd"}),
        # Members that are not scalars are omitted. Members of Pharos take precedence.
        (b'{"msg":"j","a":{"b":1},"pharos.process":"x"}', {"title": "j", "pharos.process": "web"}),
        (b'{"level":"error"}', {"title": '{"level":"error"}', "severity": "info"}),
        (b'{"msg":', {"title": '{"msg":'}),
        (b"[" * 5000, {"title": "[" * 5000}),
        (b'{"msg":' + b"[" * 3000 + b"}", {"severity": "info"}),
    ],
)  # fmt: skip
def test_a_line(line: bytes, expected: dict[str, Any]) -> None:
    [event] = make_events([line], _PRINTED, Mask([]), _AT)
    flat = {**event["attributes"], **event}
    assert {name: flat[name] for name in expected} == expected


def test_values_of_variables_are_hidden() -> None:
    lines = [
        b"connects with hunter2hunter2",
        b'{"msg":"uses hunter2hunter2","dsn":"x:hunter2hunter2@y"}',
        b"hunter2hu",
    ]
    events = make_events(lines, _PRINTED, Mask(["hunter2hunter2"]), _AT, is_unfinished=True)
    assert [event["title"] for event in events] == ["connects with •••", "uses •••", "•••"]
    assert events[1]["attributes"]["dsn"] == "x:•••@y"


def test_a_value_is_hidden_however_json_escapes_it() -> None:
    # As .NET's System.Text.Json does.
    secret = r"pass\u002Bword"
    lines = [
        rf'{{"msg":"uses {secret}","dsn":"x:{secret}@y","{secret}":1,"span_id":"{secret}"}}',
        # Lines that are not records: without a message, not only JSON, cut.
        rf'{{"@mt":"config","key":"{secret}"}}',
        rf'info: {{"key":"{secret}"}}',
        rf'{{"msg":"{secret}","key":"{secret[:-2]}',
    ]
    mask = Mask(["pass+word"])
    event, *others = make_events([line.encode() for line in lines], _PRINTED, mask, _AT, is_unfinished=True)
    assert (event["title"], event["span_id"]) == ("uses •••", "•••")
    assert {"dsn": "x:•••@y", "•••": 1}.items() <= event["attributes"].items()
    assert [other["title"] for other in others] == [
        '{"@mt":"config","key":"•••"}',
        'info: {"key":"•••"}',
        '{"msg":"•••","key":"•••',
    ]


def test_a_long_line_is_searched_only_as_far_as_it_is_shown() -> None:
    value = "correct horse battery staple"
    searched: list[int] = []

    class Recording(Mask):
        def hide(self, text: str, *, unfinished: bool = False) -> str:
            searched.append(len(text))
            return super().hide(text, unfinished=unfinished)

    mask = Recording([value])
    # The line is cut before, in and after the value.
    for offset in range(-20, 30):
        searched.clear()
        line = "-" * (MAX_LINE_CHARACTERS - len(TRUNCATION_NOTE) + offset) + value + "-" * 200_000
        [event] = make_events([line.encode()], _PRINTED, mask, _AT)
        shown = event["title"].removesuffix(TRUNCATION_NOTE)
        assert len(event["title"]) <= MAX_LINE_CHARACTERS and shown != event["title"]
        # Less than four characters of a value may end a line, as in the log of a deployment.
        assert not any(value[:size] in shown for size in range(4, len(value)))
        assert sum(searched) < 3 * MAX_LINE_CHARACTERS


def test_empty_lines_are_left_out() -> None:
    assert make_events([b"", b"  ", b"\x1b[0m", b"\r"], _PRINTED, Mask([]), _AT) == []


@pytest.mark.parametrize(
    ("data", "most", "flags", "expected"),
    [
        (b"a\nb\nc", 9, "", Taken([b"a", b"b"], 4, False)),
        (b"a\nb\nc", 9, "ended", Taken([b"a", b"b", b"c"], 5, True)),
        (b"a\nb\nc", 1, "ended", Taken([b"a"], 2, False)),
        (b"abc", 9, "", Taken([], 0, False)),
        (b"abc", 9, "full", Taken([b"abc"], 3, True)),
        (b"a\nbc", 9, "full", Taken([b"a"], 2, False)),
        (b"rest\na\n", 9, "in", Taken([b"a"], 7, False)),
        (b"rest", 9, "in", Taken([], 4, True)),
        (b"rest", 9, "in ended", Taken([], 4, True)),
        (b"", 9, "ended", Taken([], 0, False)),
    ],
)
def test_lines_of_a_batch(data: bytes, most: int, flags: str, expected: Taken) -> None:
    words = flags.split()
    taken = take_lines(
        data, most, is_in_line="in" in words, is_full="full" in words, is_ended="ended" in words
    )
    assert taken == expected
