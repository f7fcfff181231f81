"""The reason of a failed deployment if a release does not become healthy."""

import asyncio
import re
from pathlib import Path

import pytest

from deployer.drivers.interface import DeployFailed
from deployer.drivers.local.driver import _quote_output
from deployer.shield import end_tasks
from tests.deployer.processes.sandbox import PYTHON
from tests.support.driver_under_test import DriverUnderTest, RecordedLog, driver_under_test
from tests.support.waits import poll_until

ANSWERS = """\
import http.server, os, socket, sys

address, port, status = sys.argv[1], int(sys.argv[2] or os.environ["PORT"]), int(sys.argv[3])


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in address else socket.AF_INET


server = Server((address, port), Handler)
print("listens at", server.server_address[1], flush=True)
server.serve_forever()
"""
SAYS = """\
import os, socket, sys

listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    caller, _ = listener.accept()
    caller.recv(1000)
    caller.sendall(sys.argv[1].encode())
    caller.close()
"""
SILENT = """\
import os, socket, time

listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
callers = []
while True:
    callers.append(listener.accept())
"""
SLEEPS = "import time\ntime.sleep(1000)\n"
NOTHING = r"Nothing listens at 127\.0\.0\.1:\d+ "
PORT_OF_APP = "PORT_OF_APP"
READ_PORT = r"Read the PORT variable\."
NO_PORT = rf"{NOTHING}\(the application does not listen on any port\)\. {READ_PORT}"
CHECK_PATH = r"Check `processes\.web\.health\.path`\."

FAILED_CHECKS = {
    "another port": (
        ANSWERS,
        "127.0.0.1 0 200",
        rf"{NOTHING}\(the application listens at PORT_OF_APP\)\. {READ_PORT}",
    ),
    "all addresses": (
        ANSWERS,
        "0.0.0.0 0 200",
        rf"{NOTHING}\(the application listens at PORT_OF_APP\)\. {READ_PORT}",
    ),
    "IPv6 alone": (
        ANSWERS,
        "::1 '' 200",
        rf"{NOTHING}\(the application listens at \[::1\]:PORT_OF_APP\)\. Listen at 127\.0\.0\.1 or at all addresses\.",
    ),
    "no port": (SLEEPS, "", NO_PORT),
    "not found": (
        ANSWERS,
        "127.0.0.1 '' 404",
        rf"GET /healthz returned 404 \(expected 200–399\)\. {CHECK_PATH}",
    ),
    "an error": (
        ANSWERS,
        "127.0.0.1 '' 500",
        rf"GET /healthz returned 500 \(expected 200–399\)\. {CHECK_PATH}",
    ),
    "another protocol": (
        SAYS,
        "SSH-2.0-x",
        r"GET /healthz was answered with something other than HTTP/1\.1: 'SSH-2\.0-x'\.",
    ),
    "no answer": (SAYS, "''", r"GET /healthz was not answered: the process closed the connection\."),
    "silence": (
        SILENT,
        "",
        r"GET /healthz was not answered\. Raise `processes\.web\.health\.timeout_seconds`, or .*\.",
    ),
}


async def _fail(
    under_test: DriverUnderTest, number: int, program: str, arguments: str, health: str
) -> tuple[str, RecordedLog]:
    """Return the error of starting an environment's only release."""
    command = f"exec {PYTHON} app.py {arguments}"
    run = under_test.write_run(number, program, health=health, command=command)
    log = RecordedLog()
    with pytest.raises(DeployFailed) as caught:
        await under_test.driver.start(under_test.tenancy(number), run, 1, log)
    return str(caught.value), log


async def _explain(
    under_test: DriverUnderTest, number: int, program: str, arguments: str, expected: str
) -> None:
    """Wait until the instance has this explanation: programs may take long to start."""
    command = f"exec {PYTHON} app.py {arguments}"
    run = under_test.write_run(
        number, program, health="path: /healthz, timeout_seconds: 3600", command=command
    )
    starting = asyncio.create_task(under_test.driver.start(under_test.tenancy(number), run, 1, RecordedLog()))
    output = under_test.folder / "outputs" / under_test.tenancy(number).public_id / str(number) / "web.1.log"
    explanation = ""
    try:
        async with asyncio.timeout(60):
            while True:
                await asyncio.sleep(0.1)
                printed = output.read_text() if output.exists() else ""
                found = re.search(r"listens at (\d+)\n", printed)
                explanation = await under_test.driver._fleets[number].instances[0].explain()
                if re.fullmatch(expected.replace(PORT_OF_APP, found[1] if found else "-"), explanation):
                    return
    except TimeoutError:
        raise AssertionError(f"{explanation!r} is not {expected!r}") from None
    finally:
        await end_tasks(starting)


async def test_a_failed_health_check_is_explained() -> None:
    async with driver_under_test() as under_test:
        await asyncio.gather(
            *(_explain(under_test, number, *case) for number, case in enumerate(FAILED_CHECKS.values(), 1))
        )


async def test_a_deployment_fails_with_the_reason() -> None:
    async with driver_under_test() as under_test:
        message, _ = await _fail(under_test, 1, SLEEPS, "", "path: /healthz, timeout_seconds: 1")
        assert re.fullmatch(rf"web\.1 was not healthy within 1 s: {NO_PORT}", message), message


ENDS = {
    "a status": ("import sys\nsys.exit(3)\n", "web.1 ended with status 3 before it was healthy."),
    "killed": (
        "import os\nos.kill(os.getpid(), 9)\n",
        "web.1 ended with exit status 137 (SIGKILL, perhaps out of memory) before it was healthy.",
    ),
    "an error": (
        "import os, time\ntime.sleep(0.3)\nraise ValueError('no database')\n",
        "web.1 ended with status 1 before it was healthy.",
    ),
}


async def test_a_process_that_ends_is_reported_at_once() -> None:
    """Before the timeout of the health check."""
    async with driver_under_test() as under_test:
        health = "path: /healthz, timeout_seconds: 3600"
        failing = [
            _fail(under_test, number, text, "", health) for number, (text, _) in enumerate(ENDS.values(), 1)
        ]
        async with asyncio.timeout(60):
            ended = await asyncio.gather(*failing)
        assert [message for message, _ in ended] == [explanation for _, explanation in ENDS.values()]
        assert "no database" in ended[-1][1].text


async def test_the_last_line_of_a_failed_process_is_a_whole_line() -> None:
    """Both in the deployment's log and in the file to which the next start appends."""
    async with driver_under_test() as under_test:
        printing = "import sys\nprint('boots', end='', flush=True)\nsys.exit(3)\n"
        message, log = await _fail(under_test, 1, printing, "", "path: /healthz, timeout_seconds: 3600")
        assert message == "web.1 ended with status 3 before it was healthy."
        printed = log.text.partition("» Last output of web.1:\n")[2]
        assert set(printed.splitlines(keepends=True)) == {"boots\n"}
        path = under_test.folder / "outputs" / under_test.tenancy(1).public_id / "1" / "web.1.log"
        await poll_until(lambda: path.read_text().startswith("boots\nboots\n"))


async def test_the_last_line_of_a_process_that_still_runs_is_a_whole_line(tmp_path: Path) -> None:
    """The deployment's log ends the last line with a line break: the process may print the rest of it later."""
    path, log = tmp_path / "web.1.log", RecordedLog()
    path.write_text("one\nwaits for the databa")
    await _quote_output(path, log)
    assert log.text == "» Last output of web.1:\none\nwaits for the databa\n"
    path.write_text("one\n")
    await _quote_output(path, log)
    assert log.text.endswith("web.1:\none\n")
