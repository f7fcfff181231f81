"""The severity that a line of output names."""

import pytest

from deployer.output_logs.line_severity import find_severity

_NAMED = [
    # Flask, Django, and the formats of Python's logging.
    ("[2026-11-28 04:00:00,123] ERROR in app: Exception on /boom [GET]", "error"),
    ("2026-11-28 04:00:00,123 - app - WARNING - low disk", "warning"),
    ("ERROR:root:boom", "error"),
    ("WARNING: This is a development server.", "warning"),
    ("CRITICAL app down", "critical"),
    ("Traceback (most recent call last):", "error"),
    ("  + Exception Group Traceback (most recent call last):", "error"),
    ("ZeroDivisionError: division by zero", "error"),
    ("django.db.utils.OperationalError: no such table", "error"),
    # uvicorn, gunicorn.
    ("INFO:     127.0.0.1:5 - \"GET / HTTP/1.1\" 200 OK", "info"),
    ("ERROR:    Exception in ASGI application", "error"),
    ("[2026-11-28 04:00:00 +0000] [12] [ERROR] Exception in worker process", "error"),
    ("[2026-11-28 04:00:00 +0000] [12] [INFO] Booting worker", "info"),
    # Node.js, Go, Java, .NET, Rust, Ruby, PHP.
    ("TypeError: Cannot read properties of undefined (reading 'x')", "error"),
    ("Error: kaput", "error"),
    ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'", "error"),
    ("Uncaught Error: kaput", "error"),
    ("Unhandled exception. System.InvalidOperationException: x", "error"),
    ("UnhandledPromiseRejectionWarning: x", "error"),
    ("panic: runtime error: index out of range", "error"),
    ("fatal error: all goroutines are asleep - deadlock!", "error"),
    ("Exception in thread \"main\" java.lang.IllegalStateException: x", "error"),
    ("2026-11-28T04:00:00.123Z  WARN 12 --- [main] c.e.App : slow", "warning"),
    ("thread 'main' panicked at src/main.rs:2:5:", "error"),
    ("E, [2026-11-28T04:00:00.123 #12] ERROR -- : boom", "error"),
    ("[2026-11-28T04:00:00Z DEBUG app] x", "debug"),
    ("PHP Fatal error:  Uncaught Error", "error"),
    ("PHP Warning:  x", "warning"),
    ("npm ERR! code ELIFECYCLE", "error"),
    # Servers, logfmt, glog.
    ("2026/11/28 04:00:00 [error] 12#12: *1 connect() failed", "error"),
    ("[Sat Nov 28 04:00:00 2026] [core:error] [pid 1] x", "error"),
    ("time=\"2026-11-28T04:00:00Z\" level=error msg=\"boom\"", "error"),
    ("ts=2026-11-28T04:00:00Z caller=main.go:12 level=WARN msg=x", "warning"),
    ("E1128 04:00:00.123456   12 main.go:3] x", "error"),
    ("[04:00:00.000] FATAL (123): x", "critical"),
    ("TRACE entering", "debug"),
    ("error: failed to compile", "error"),
    ("Warning: React does not recognize the prop", "warning"),
]  # fmt: skip
_UNNAMED = [
    "",
    "hello",
    "there was an error in the form",
    "Served the [error] page",
    "0 errors, 0 warnings",
    "Error handling is enabled",
    "Information about fatal accidents",
    "2026-11-28 Sent the ERROR page to a visitor",
    '127.0.0.1 - - [28/Nov/2026 04:00:00] "GET /ERROR HTTP/1.1" 404 -',
    '127.0.0.1 - - [28/Nov/2026 04:00:00] "GET /boom?level=error HTTP/1.1" 500 -',
    "Listening on http://127.0.0.1:3000/debug",
    "TERROR: a film",
    "x" * 81 + " ERROR: late",
    " * Debug mode: off",
]


@pytest.mark.parametrize(("line", "severity"), [*_NAMED, *((line, None) for line in _UNNAMED)])
def test_severity_of_a_line(line: str, severity: str | None) -> None:
    assert find_severity(line) == severity
