"""The lines of records that `pharos logs` prints."""

import pytest

from operator_cli.telemetry.logs import _print_lines


def test_lines_of_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ("  indented", ["  indented"]),
        ("Error: x\n\tat f (a.js:1:2)\n  b", ["Error: x", "    at f (a.js:1:2)", "  b"]),
        ("\x1b[33mPress CTRL+C to quit\x1b[0m", ["Press CTRL+C to quit"]),
        # An escape sequence that is not removed cannot act on the terminal.
        ("a\x1b]0;title\x07b", ["a ]0;title b"]),
        ("x\n" * 300 + "ValueError: end", [*["x"] * 300, "ValueError: end"]),
        ("", [""]),
    ]
    for text, expected in cases:
        _print_lines(
            [
                {
                    "timestamp": "2026-11-28T04:00:00.123Z",
                    "severity": "error",
                    "severity_number": 17,
                    "service": "shop",
                    "text": text,
                }
            ]
        )
        first, *others = capsys.readouterr().out.splitlines()
        head = "2026-11-28 04:00:00.123  error     shop"
        assert [first.removeprefix(head).removeprefix("  "), *others] == expected
