"""`pharos logs -f`, and the output of the processes of an environment."""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import deployment_rows
from tests.support.command_deployments import (
    StartCommand,
    WriteRows,
    make_environment,
    read_environment_number,
)
from tests.support.commands import RunCommand, expect_refusal, run_json, run_text
from tests.support.platform_process import PlatformProcess


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the deployer."""
    return tmp_path_factory.mktemp("deploys")


@pytest.fixture(scope="module")
def extra_settings(deploy_folder: Path) -> dict[str, str]:
    return {"PHAROS_DEPLOY_FOLDER": str(deploy_folder)}


@pytest.fixture
def environment_path(on_engines: RunCommand) -> str:
    return make_environment(on_engines)


@pytest.fixture
def outputs(on_engines: RunCommand, write: WriteRows, environment_path: str, deploy_folder: Path) -> Path:
    """The folder with the output of the environment's processes, whose deployer has this folder."""
    environment = run_json(on_engines, "environment", "show", environment_path)
    holder = f"web1:{deploy_folder.resolve()}"
    write(
        lambda session, now: deployment_rows.lease_environment(
            session, environment["number"], now, holder_name=holder
        )
    )
    public_id = environment["id"]
    folder = deploy_folder / "outputs" / public_id / "1"
    folder.mkdir(parents=True)
    return folder


def test_the_output_of_processes_is_printed(
    on_engines: RunCommand, environment_path: str, outputs: Path
) -> None:
    done = on_engines("logs", environment_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"The processes of {environment_path} have printed nothing.\n"
    (outputs / "web.1.log").write_text("one\ntwo\x1b[31m\r\nthree")
    (outputs / "worker.1.log").write_text("started\n")
    assert run_text(on_engines, "logs", environment_path).splitlines() == [
        "web.1 | one",
        "web.1 | two [31m",
        "web.1 | three",
        "worker.1 | started",
    ]
    assert run_text(on_engines, "logs", environment_path, "-n", "1").splitlines() == [
        "web.1 | two [31m",
        "web.1 | three",
        "worker.1 | started",
    ]
    output = run_json(on_engines, "logs", environment_path, "-n", "1")
    assert [(one["process"], one["lines"], one["unfinished"]) for one in output["outputs"]] == [
        ("web", ["two\x1b[31m\r"], "three"),
        ("worker", ["started"], ""),
    ]


def test_the_output_of_processes_is_followed(
    start: StartCommand, environment_path: str, outputs: Path
) -> None:
    log = outputs / "web.1.log"
    log.write_text("one\ntwo\nthr")
    process = start("logs", "-f", environment_path, "-n", "1")
    assert process.stdout is not None
    assert process.stdout.readline() == "web.1 | two\n"
    with log.open("a") as file:
        file.write("ee\n")
    assert process.stdout.readline() == "web.1 | three\n"
    # A new process is shown from the beginning of its output.
    (outputs / "web.2.log").write_text("hello\nyou\n")
    assert [process.stdout.readline() for _ in range(2)] == ["web.2 | hello\n", "web.2 | you\n"]
    log.write_text("four\n")
    assert process.stdout.readline() == "web.1 | (cut here, as it had become long: lines may be missing)\n"
    assert process.stdout.readline() == "web.1 | four\n"


def test_followed_output_is_printed_as_json(
    start: StartCommand, environment_path: str, outputs: Path
) -> None:
    (outputs / "web.1.log").write_text("one\n")
    process = start("logs", environment_path, "--follow", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == {"process": "web", "number": 1, "text": "one"}


def test_output_on_another_machine_is_refused(
    on_engines: RunCommand, write: WriteRows, environment_path: str
) -> None:
    line = expect_refusal(on_engines, "logs", environment_path)
    assert line == f"No process of {environment_path} has run yet: deploy it first."
    environment = read_environment_number(on_engines, environment_path)
    write(lambda session, now: deployment_rows.lease_environment(session, environment, now))
    for command in (("logs", environment_path), ("logs", environment_path, "-f")):
        line = expect_refusal(on_engines, *command)
        assert line.startswith(
            f"The output of {environment_path} is on the machine of its deployer, web1, below outputs/env_"
        )


def test_an_argument_that_is_no_environment_is_refused(on_socket: PlatformProcess) -> None:
    line = expect_refusal(on_socket.run, "logs", "nowhere", status=5)
    assert line.startswith("There is no environment 'nowhere'.")
    for option in ("--service", "--search", "--trace", "--environment"):
        line = expect_refusal(on_socket.run, "logs", "7", option, "x", status=2)
        assert line == f"{option} filters log records: leave 7 out, or {option}."


def test_log_records_are_followed(on_socket: PlatformProcess, start: StartCommand) -> None:
    service = f"shop-{uuid.uuid4().hex[:8]}"
    # Other files may have added environments to this platform.
    logs = ("logs", "--environment", "my-project/production", "--service", service)
    _log(on_socket, service, "before")
    process = start(*logs, "-f", "--json", socket=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["text"] == "before"
    # Equal records are shown separately.
    at = datetime.now(UTC).isoformat()
    _log(on_socket, service, "twice", at=at)
    _log(on_socket, service, "twice", at=at)
    assert [json.loads(process.stdout.readline())["text"] for _ in range(2)] == ["twice", "twice"]
    shown = run_text(on_socket.run, *logs, "-n", "2")
    assert shown.count("twice") == 2
    assert [one["text"] for one in run_json(on_socket.run, *logs)] == [
        "twice",
        "twice",
        "before",
    ]


def _log(platform: PlatformProcess, service: str, text: str, at: str | None = None) -> None:
    event = {
        "type": "log",
        "name": text,
        "severity": "warning",
        "service": service,
        "timestamp": at or datetime.now(UTC).isoformat(),
    }
    answer = platform.ingest({"batch_id": str(uuid.uuid4()), "events": [event]})
    assert answer.status in (200, 202), answer
    platform.wait_until_consumed()
