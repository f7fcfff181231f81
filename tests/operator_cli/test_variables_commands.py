"""`pharos variables`: on a running `pharos up`, and the rotation of the key on engines as well."""

import os
import pty
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from control_domain.sealing import SealingKeys
from operator_cli.durations import format_utc_minute
from tests.support.command_deployments import StartCommand
from tests.support.commands import (
    CLEAN_ENVIRONMENT,
    RunCommand,
    command_runner,
    expect_refusal,
    run_json,
    run_text,
)
from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.second_person import as_second_owner

OLD, NEW = "an old secret of thirty-two characters", "a new secret of thirty-two characters!"
SET = "# what it runs with\nexport A=hunter2\nB='hunter3'\n"


@pytest.fixture(scope="module")
def extra_settings() -> Mapping[str, str]:
    return {"PHAROS_VARIABLES_KEY": OLD}


@pytest.fixture
def environment_path(pharos: RunCommand) -> str:
    """The path of a new environment."""
    created = run_json(pharos, "environment", "create", f"Env {uuid.uuid4().hex[:8]}", "--type", "staging")
    return f"{created['project']['slug']}/{created['slug']}"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A dotenv file with the variables A and B."""
    path = tmp_path / "live.env"
    path.write_text(SET)
    return str(path)


def _not_live(environment_path: str) -> str:
    return f"Not live until the next deploy: `pharos deploy {environment_path}`."


def _names(document: Any) -> list[str]:
    return [each["name"] for each in document["variables"] if each["is_set"]]


def test_variables_are_set_unset_and_shown_by_name(
    pharos: RunCommand, environment_path: str, file: str
) -> None:
    assert run_text(pharos, "variables", "show", environment_path) == (
        f"{environment_path} has no variables yet. `pharos variables set {environment_path} KEY=VALUE` sets one.\n"
    )
    change = ("variables", "set", environment_path)
    output = run_text(pharos, *change, "APP_ENV=production", "OTHER=x=y")
    assert output == f"{environment_path} has 2 variables. {_not_live(environment_path)}\n"
    done = pharos(*change, "--file", file, "SECRET=-", "--json", stdin="hunter4\n")
    assert (done.returncode, done.stderr, "hunter" in done.stdout) == (0, "", False)
    done = pharos(*change, "-", stdin="C=1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        run_text(pharos, "variables", "unset", environment_path, "OTHER", "A")
        == f"{environment_path} has 4 variables. {_not_live(environment_path)}\n"
    )
    shown = run_json(pharos, "variables", "show", environment_path)
    assert (shown["version"], _names(shown)) == (4, ["APP_ENV", "B", "C", "SECRET"])
    assert run_text(pharos, "variables", "show", environment_path) == (
        f"{environment_path}: version 4, set {format_utc_minute(shown['set_at'])} by owner@localhost, 4 variables\n"
        "  APP_ENV\n  B\n  C\n  SECRET\n"
    )


def test_all_variables_are_replaced(pharos: RunCommand, environment_path: str, file: str) -> None:
    run_json(pharos, "variables", "set", environment_path, "OLD=1")
    output = run_text(pharos, "variables", "replace", environment_path, file)
    replaced = f"All variables of {environment_path} are replaced: it has 2 variables."
    assert output == f"{replaced} {_not_live(environment_path)}\n"
    assert _names(run_json(pharos, "variables", "show", environment_path)) == ["A", "B"]
    run_json(pharos, "variables", "set", environment_path, "OLD=1")
    assert run_text(pharos, "variables", "set", environment_path, file).startswith(replaced)
    assert _names(run_json(pharos, "variables", "show", environment_path)) == ["A", "B"]


def test_a_value_is_asked_for_without_being_shown(
    pharos: RunCommand, start: StartCommand, environment_path: str
) -> None:
    line = expect_refusal(pharos, "variables", "set", environment_path, "TOKEN")
    assert line.startswith("Without a terminal, pharos cannot ask for TOKEN:")
    ours, theirs = pty.openpty()
    process = start(
        "variables",
        "set",
        environment_path,
        "TOKEN",
        socket=True,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while b"TOKEN (not shown): " not in seen:
        seen += os.read(ours, 1024)
    os.write(ours, b"hunter2\n")
    while b"has 1 variable" not in seen:
        seen += os.read(ours, 1024)
    assert process.wait(120) == 0 and b"hunter2" not in seen
    os.close(ours)


def test_variables_are_protected_and_unprotected(
    pharos: RunCommand, environment_path: str, file: str
) -> None:
    assert run_text(pharos, "variables", "protect", environment_path, "B", "LATER") == (
        f"Protected in {environment_path}: B, LATER. Previews get no copy from now on.\n"
        "Not set yet: B, LATER. Once set they are protected.\n"
    )
    output = run_text(pharos, "variables", "show", environment_path)
    assert output.endswith("\nProtected, but not set: B, LATER.\n")
    run_json(pharos, "variables", "replace", environment_path, file)
    output = run_text(pharos, "variables", "show", environment_path)
    assert output.endswith("2 variables\n  A\n  B  (protected)\nProtected, but not set: LATER.\n")
    assert run_text(pharos, "variables", "protect", environment_path, "B", "A") == (
        f"Protected in {environment_path}: A. Previews get no copy from now on.\n"
        f"Protected already in {environment_path}: B.\n"
    )
    assert run_text(pharos, "variables", "unprotect", environment_path, "A", "LATER", "NOPE") == (
        f"Not protected any more in {environment_path}: A, LATER.\n"
        f"Not protected before in {environment_path}: NOPE.\n"
    )
    shown = run_json(pharos, "variables", "show", environment_path)
    assert [each["name"] for each in shown["variables"] if each["protected"]] == ["B"]


def test_a_change_waits_for_a_second_person(
    pharos: RunCommand, on_socket: PlatformProcess, environment_path: str, file: str, tmp_path: Path
) -> None:
    second = as_second_owner(on_socket, tmp_path)
    run_json(pharos, "environment", "set", environment_path, "--variable-approval", "on")
    done = pharos("variables", "replace", environment_path, file)
    (change,) = [
        each["id"] for each in run_json(pharos, "variables", "show", environment_path)["pending_changes"]
    ]
    assert (done.returncode, done.stdout) == (
        3,
        f"Change {change} of {environment_path} waits for a second person, who approves it with `pharos approve "
        f"variables {change}`.\n",
    )
    assert f"Change {change} waits for approval" in run_text(pharos, "variables", "show", environment_path)
    shown = " ".join(run_text(second, "approvals").split())
    assert "added A, B" in shown and "hunter" not in shown
    assert "another person must decide" in expect_refusal(pharos, "approve", "variables", str(change))
    assert run_text(second, "approve", "variables", str(change)) == (
        f"Change {change} of {environment_path} is applied. {_not_live(environment_path)}\n"
    )
    done = pharos("variables", "set", environment_path, "A=hunter2", "--json")
    assert (done.returncode, done.stderr) == (3, "")
    assert "the same as now" in " ".join(run_text(pharos, "approvals").split())
    run_text(pharos, "variables", "protect", environment_path, "A")
    assert pharos("variables", "unprotect", environment_path, "A").returncode == 3
    for kind in ("update", "unprotect"):
        pending = run_json(pharos, "variables", "show", environment_path)["pending_changes"]
        (change,) = [each["id"] for each in pending if each["kind"] == kind]
        output = run_text(second, "reject", "variables", str(change), "--reason", "needless")
        assert output == f"Change {change} of variables is rejected; the current variables stay.\n"


def test_the_key_is_rotated_on_engines(
    on_engines: RunCommand, own_database_url: str, own_redis_url: str, file: str, tmp_path: Path
) -> None:
    created = run_json(
        on_engines, "environment", "create", f"Rotated {uuid.uuid4().hex[:8]}", "--type", "staging"
    )
    for _ in range(3):
        run_json(on_engines, "variables", "replace", created["id"], file)

    def run_with(key: str) -> RunCommand:
        engines = {"PHAROS_DATABASE_URL": own_database_url, "PHAROS_REDIS_URL": own_redis_url}
        return command_runner(tmp_path, {**CLEAN_ENVIRONMENT, **engines, "PHAROS_VARIABLES_KEY": key})

    done = run_json(run_with(f"{NEW},{OLD}"), "variables", "rotate-key")
    assert done["resealed"] >= 3 and done["key_id"] == SealingKeys.read(NEW).key_id
    output = run_text(run_with(NEW), "variables", "rotate-key")
    assert output == f"Sealed again under key {done['key_id']}: 0. Nothing is left under another key.\n"
    # The control plane still has only the old key.
    line = expect_refusal(on_engines, "variables", "show", created["id"])
    assert line.startswith("The environment's variables cannot be opened here now.")
    run_json(run_with(f"{OLD},{NEW}"), "variables", "rotate-key")
    assert _names(run_json(on_engines, "variables", "show", created["id"])) == ["A", "B"]
    done_without = on_engines("variables", "rotate-key", without=("PHAROS_VARIABLES_KEY",))
    assert (done_without.returncode, done_without.stdout) == (1, "")
    assert "PHAROS_VARIABLES_KEY" in done_without.stderr


def test_the_key_is_rotated_embedded(tmp_path: Path, file: str) -> None:
    """Rotate through the key file, as the help describes."""
    data = tmp_path / "data"
    with platform_process(data) as platform:
        for _ in range(3):
            run_json(platform.run, "variables", "replace", "production", file)
        assert platform.stop() == 0
    key = data / "variables.key"
    old = key.read_text().strip()
    # The webhook secret of the sample repository is sealed with the same keys.
    for secret, resealed in ((f"{NEW},{old}", {3, 4}), (NEW, {0})):
        key.write_text(f"{secret}\n")
        with platform_process(data) as platform:
            assert run_json(platform.run, "variables", "rotate-key")["resealed"] in resealed
            assert _names(run_json(platform.run, "variables", "show", "production")) == ["A", "B"]
            assert platform.stop() == 0


def test_a_file_of_the_maximum_size_is_accepted(on_socket: PlatformProcess, tmp_path: Path) -> None:
    """256 KiB of characters that take six bytes each in JSON."""
    path = tmp_path / "big.env"
    lines = ["A" * 9 + f"{n}='" + "\x01" * 120_000 + "'\n" for n in range(2)]
    path.write_text("".join(lines))
    for command in (("replace", "production", str(path)), ("set", "production", "--file", str(path))):
        run_text(on_socket.run, "variables", *command)
    path.write_text("A=" + "x" * 256 * 1024)
    line = expect_refusal(on_socket.run, "variables", "replace", "production", str(path))
    assert line == f"{path} has more than 256 KiB, which is the maximum."


def test_impossible_requests_are_explained(pharos: RunCommand, environment_path: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    line = expect_refusal(pharos, "variables", "replace", environment_path, missing)
    assert line == f"{missing} cannot be read: No such file or directory."
    bad = tmp_path / "bad.env"
    bad.write_bytes(b"A=\xff\n")
    line = expect_refusal(pharos, "variables", "replace", environment_path, str(bad))
    assert line == f"{bad} is not UTF-8 text: save it in UTF-8."
    bad.write_text("A=1\nhunter2\n")
    for command in (("replace", environment_path, str(bad)), ("set", environment_path, "--file", str(bad))):
        done = pharos("variables", *command)
        assert (done.returncode, done.stdout) == (1, "")
        assert "line 2: there is no =" in done.stderr and "hunter2" not in done.stderr
    done = pharos("variables", "protect", environment_path, "A", "B=hunter2")
    assert (done.returncode, done.stdout, "hunter2" in done.stderr) == (1, "", False)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request, and no message repeats a possible value."""
    (tmp_path / "TOKEN").write_text("A=1\n")
    for arguments, output in (
        (("unset",), "the following arguments are required: ENVIRONMENT"),
        (("replace", "production"), "the following arguments are required: FILE"),
        (
            ("set", "DB=hunter2"),
            "DB=… is not an environment. Name one first: `pharos variables set ENVIRONMENT DB=…`.",
        ),
        (("set", "production"), "Name the variables to set: KEY=VALUE, KEY, - or --file FILE."),
        (
            ("set", "production", "A=1", "hunter-2"),
            "Argument 2 after the environment is neither KEY=VALUE, nor KEY",
        ),
        (("set", "production", "A=-", "-"), "Standard input can be read once"),
        (("set", "production", "TOKEN"), "TOKEN is a file, and could be a variable."),
        (("unset", "production"), "the following arguments are required: KEY"),
        (("protect", "production"), "the following arguments are required: KEY"),
    ):
        done = command_runner(tmp_path)("variables", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr and "hunter" not in done.stderr


def test_the_help_explains_values_and_the_rotation(tmp_path: Path) -> None:
    output = " ".join(command_runner(tmp_path)("variables", "set", "--help").stdout.split())
    assert "KEY=VALUE is visible to other users of the machine" in output
    output = " ".join(command_runner(tmp_path)("variables", "rotate-key", "--help").stdout.split())
    assert "PHAROS_VARIABLES_KEY=new,old" in output and "DIR/variables.key" in output
