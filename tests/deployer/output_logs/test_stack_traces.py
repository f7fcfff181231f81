"""Stack traces in the output become one record each."""

from datetime import datetime

import pytest

from deployer.log_lines.masking import Mask
from deployer.output_logs.log_events import Printed, make_events
from deployer.output_logs.stack_traces import MAX_RECORD_CHARACTERS
from pipeline_contracts.times import from_epoch_ms

_AT = 1_764_000_000_000
_PRINTED = Printed("shop", "web", 1, 7)

_PYTHON = """Traceback (most recent call last):
  File "/app/a.py", line 3, in boom
    1 / 0
    ~~^~~
ZeroDivisionError: division by zero"""
_CHAINED = f"""{_PYTHON}

During handling of the above exception, another exception occurred:

{_PYTHON.replace("ZeroDivision", "Runtime")}"""
_NODE = """Error: kaput
    at boom (/app/server.js:3:11)
    at async Layer.handle (node:internal/x:1:2) {
  code: 'KAPUT'
}"""
_JAVA = """java.lang.IllegalStateException: x
\tat com.example.App.main(App.java:12)
Caused by: java.io.IOException: y
\tat com.example.App.read(App.java:40)
\t... 12 more"""
_GO = """panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.main()
\t/app/main.go:8 +0x1d
exit status 2"""
_RUBY = """app.rb:3:in `boom': kaput (RuntimeError)
\tfrom app.rb:7:in `<main>'"""
_FLASK = f"[2026-11-28 04:00:00,123] ERROR in app: Exception on /boom [GET]\n{_PYTHON}"


@pytest.mark.parametrize("trace", [_PYTHON, _CHAINED, _NODE, _JAVA, _GO, _RUBY, _FLASK])
def test_a_stack_trace_is_one_record(trace: str) -> None:
    lines = ["started", *trace.splitlines(), "127.0.0.1 done", "  * indented", "next"]
    events = make_events([line.encode() for line in lines], _PRINTED, Mask([]), _AT)
    whole = "\n".join(line for line in trace.splitlines() if line)
    after = ["127.0.0.1 done", "  * indented", "next"]
    assert [event["title"] for event in events] == [lines[0], whole, *after]
    assert [event["severity"] for event in events] == ["info", "error", "info", "info", "info"]
    times = [datetime.fromisoformat(event["timestamp"]) for event in events]
    assert times == sorted({*times})
    assert times[0] == from_epoch_ms(_AT) and times[-1] < from_epoch_ms(_AT + 1)


def test_lines_around_a_trace() -> None:
    cases: list[tuple[list[str], list[tuple[str, str]]]] = [
        # A batch that begins inside a traceback.
        (['  File "/app/a.py", line 3, in x', "    1 / 0", "ValueError: x", "ok"],
         [("error", '  File "/app/a.py", line 3, in x\n    1 / 0\nValueError: x'), ("info", "ok")]),
        # A message that names its severity keeps it.
        (["WARNING: retrying", "    at f (a.js:1:2)"], [("warning", "WARNING: retrying\n    at f (a.js:1:2)")]),
        # A JSON record is whole.
        (['{"msg":"m"}', "    at f (a.js:1:2)", "b"],
         [("info", "m"), ("error", "    at f (a.js:1:2)"), ("info", "b")]),
        # Only an error message belongs to the traceback after it.
        (["hello", "Traceback (most recent call last):", "KeyError: 1", "hello"],
         [("info", "hello"), ("error", "Traceback (most recent call last):\nKeyError: 1"), ("info", "hello")]),
        (["Menu:", "  at noon: soup", "  from 12"],
         [("info", "Menu:"), ("info", "  at noon: soup"), ("info", "  from 12")]),
    ]  # fmt: skip
    for lines, expected in cases:
        events = make_events([line.encode() for line in lines], _PRINTED, Mask([]), _AT)
        assert [(event["severity"], event["title"]) for event in events] == expected


def test_values_are_hidden_in_each_line_of_a_trace_with_colours() -> None:
    lines = [
        b"\x1b[31mERROR\x1b[0m hun\x1b[1mter2hunter2",
        *_PYTHON.replace("zero", "hunter2hunter2").encode().split(b"\n"),
    ]
    [event] = make_events(lines, _PRINTED, Mask(["hunter2hunter2"]), _AT)
    assert event["title"].startswith("ERROR •••\nTraceback") and event["title"].endswith("by •••")


def test_a_long_trace_continues_in_another_record() -> None:
    lines = [b"Traceback (most recent call last):", *[b"  " + b"x" * 1000] * 25, b"ValueError: end"]
    events = make_events(lines, _PRINTED, Mask([]), _AT, first_step=990)
    assert all(len(event["title"]) <= MAX_RECORD_CHARACTERS for event in events)
    assert [event["severity"] for event in events] == ["error"] * 3
    assert "\n".join(event["title"] for event in events).encode() == b"\n".join(lines)
    # The time stays within the millisecond.
    assert events[-1]["timestamp"] == "2025-11-24T16:00:00.000999Z"
