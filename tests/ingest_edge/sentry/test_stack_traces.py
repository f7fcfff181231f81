"""Stack traces are written as their language prints them: the dashboard and the grouping of issues read these."""

from typing import Any

from ingest_edge.sentry.stack_traces import write_stack_trace


def frame(
    function: str | None, filename: str | None = None, line: int | None = None, **more: Any
) -> dict[str, Any]:
    return {"function": function, "filename": filename, "lineno": line, **more}


def exception(kind: str | None, value: str | None, *frames: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "value": value, "stacktrace": {"frames": list(frames)}, **more}


PYTHON = exception(
    "ValueError",
    "no card",
    frame("main", "shop/main.py", 3, context_line="    pay(order)"),
    frame("pay", "shop/pay.py", 12, abs_path="/releases/17/shop/pay.py"),
)
PYTHON_TEXT = """Traceback (most recent call last):
  File "shop/main.py", line 3, in main
    pay(order)
  File "shop/pay.py", line 12, in pay
ValueError: no card"""

WRITTEN: list[tuple[str, str, list[dict[str, Any]], str]] = [
    ("python", "python", [PYTHON], PYTHON_TEXT),
    (
        "python with a cause",
        "python",
        [exception("KeyError", "'a'", frame("f", "a.py", 1)), PYTHON],
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'a'\n\n"
        "The above exception was the direct cause of the following exception:\n\n" + PYTHON_TEXT,
    ),
    (
        "python, while another was handled",
        "python",
        [exception("KeyError", "'a'", mechanism={"source": "__context__"}), PYTHON],
        "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + PYTHON_TEXT,
    ),
    ("python without frames", "python", [exception("SystemError", None)], "SystemError"),
    (
        "javascript",
        "javascript",
        [
            exception("Error", "cause", frame("load", "b.js", 1, colno=2)),
            exception(
                "TypeError",
                "x",
                frame("?", "a.js", 7, colno=9),
                frame("pay", "https://shop.example/app.js", 4, colno=5),
            ),
        ],
        "TypeError: x\n    at pay (https://shop.example/app.js:4:5)\n    at a.js:7:9\n"
        "Caused by: Error: cause\n    at load (b.js:1:2)",
    ),
    (
        "java",
        "java",
        [
            exception(
                "IllegalStateException",
                "empty",
                frame("main", "Main.java", 3, module="shop.Main"),
                frame("pay", "Pay.java", 12, module="shop.Pay"),
            )
        ],
        "IllegalStateException: empty\n\tat shop.Pay.pay(Pay.java:12)\n\tat shop.Main.main(Main.java:3)",
    ),
    (
        "ruby",
        "ruby",
        [exception("KeyError", "no card", frame("main", "shop/main.rb", 3), frame("pay", "shop/pay.rb", 12))],
        "KeyError: no card\n\tfrom shop/pay.rb:12:in 'pay'\n\tfrom shop/main.rb:3:in 'main'",
    ),
    (
        "go",
        "go",
        [
            exception(
                "*errors.errorString",
                "no card",
                frame("main", "/src/main.go", 3, module="main"),
                frame("Pay", "/src/pay.go", 12, module="shop"),
            )
        ],
        "*errors.errorString: no card\nshop.Pay(...)\n\t/src/pay.go:12\nmain.main(...)\n\t/src/main.go:3",
    ),
    (
        "php",
        "php",
        [exception("Error", "x", frame("Shop::pay", "/src/Pay.php", 12))],
        "Error: x\n    at Shop::pay (/src/Pay.php:12)",
    ),
    ("nothing known", "native", [exception(None, "SIGSEGV", frame(None))], "SIGSEGV\n    at <unknown>"),
    ("no exception", "python", [], ""),
    (
        "wrong types",
        "node",
        [{"type": 7, "value": ["x"], "stacktrace": {"frames": [3, {"function": {}}]}}],
        "7\n    at <unknown>",
    ),
]


def test_traces_are_written_as_their_language_prints_them() -> None:
    for name, platform, exceptions, expected in WRITTEN:
        assert write_stack_trace({}, exceptions, platform) == expected, name


def test_message_has_the_stack_that_was_sent_with_it() -> None:
    frames = {"frames": [frame("pay", "pay.py", 12)]}
    expected = 'Traceback (most recent call last):\n  File "pay.py", line 12, in pay'
    assert write_stack_trace({"threads": {"values": [{"stacktrace": frames}]}}, [], "python") == expected
    assert write_stack_trace({"stacktrace": frames}, [], "python") == expected


def test_number_of_frames_and_exceptions_is_limited() -> None:
    deep = exception("RecursionError", "x", *[frame(f"f{n}", "a.py", n) for n in range(5000)])
    text = write_stack_trace({}, [deep] * 1000, "python")
    assert text.count("RecursionError") == 20
    # The innermost frames are kept.
    assert text.count("  File ") == 20 * 250 and "in f4999" in text and "in f100\n" not in text
