"""`pharos variables` on both kinds of installation."""

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from control_domain.sealing import SealingKeys
from tests.support.commands import (
    CLEAN_ENVIRONMENT,
    RunCommand,
    command_runner,
    expect_refusal,
    run_json,
    run_text,
)
from tests.support.platform_process import PlatformProcess, platform_process

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


def test_variables_are_set_and_shown_by_name(pharos: RunCommand, environment_path: str, file: str) -> None:
    output = run_text(pharos, "variables", "show", environment_path)
    assert (
        output
        == f"{environment_path} has no variables yet. `pharos variables set {environment_path} FILE` sets them.\n"
    )
    output = run_text(pharos, "variables", "set", environment_path, file)
    assert output == f"{environment_path} has 2 variables. {_not_live(environment_path)}\n"
    shown = run_json(pharos, "variables", "show", environment_path)
    assert (shown["version"], shown["names"], shown["set_by"]) == (1, ["A", "B"], None)
    output = run_text(pharos, "variables", "show", environment_path)
    assert output == f"{environment_path}: version 1, set {shown['set_at']}, 2 variables\n  A\n  B\n"
    done = pharos("variables", "set", environment_path, "-", stdin="C=1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert run_json(pharos, "variables", "show", environment_path)["names"] == ["C"]


def test_variables_are_protected_and_unprotected(
    pharos: RunCommand, environment_path: str, file: str
) -> None:
    output = run_text(pharos, "variables", "protect", environment_path, "B", "LATER")
    assert output == (
        f"Protected in {environment_path}: B, LATER. Previews get no copy from now on.\n"
        "Not set yet: B, LATER. Once set they are protected.\n"
    )
    output = run_text(pharos, "variables", "show", environment_path)
    assert output.endswith("\nProtected, but not set: B, LATER.\n")
    run_json(pharos, "variables", "set", environment_path, file)
    output = run_text(pharos, "variables", "show", environment_path)
    assert output.endswith("2 variables\n  A\n  B  (protected)\nProtected, but not set: LATER.\n")
    assert run_json(pharos, "variables", "show", environment_path)["protected"] == ["B", "LATER"]
    output = run_text(pharos, "variables", "protect", environment_path, "B", "A")
    assert output == (
        f"Protected in {environment_path}: A. Previews get no copy from now on.\n"
        f"Protected already in {environment_path}: B.\n"
    )
    output = run_text(pharos, "variables", "unprotect", environment_path, "A", "LATER")
    assert output == f"Not protected any more in {environment_path}: A, LATER.\n"
    output = run_text(pharos, "variables", "unprotect", environment_path, "A")
    assert output == f"Not protected before in {environment_path}: A.\n"
    assert run_json(pharos, "variables", "unprotect", environment_path, "A")["protected"] == ["B"]


@pytest.mark.parametrize("pharos", ["socket", "engines"], indirect=True)
def test_a_change_waits_for_a_second_person(pharos: RunCommand, environment_path: str, file: str) -> None:
    people = {"asker@variables.example": "deployer", "second@variables.example": "maintainer"}
    known = {person["email"] for person in run_json(pharos, "person", "list")}
    for email, role in people.items():
        if email not in known:
            run_json(pharos, "person", "add", email, "--name", role.title())
        run_json(pharos, "project", "grant", environment_path.partition("/")[0], email, "--role", role)
    asker, second = people
    run_json(pharos, "environment", "set", environment_path, "--variable-approval", "on")
    line = expect_refusal(pharos, "variables", "set", environment_path, file)
    assert line.startswith("A second person has to agree to variables of this environment: say who asks")
    output = run_text(pharos, "variables", "set", environment_path, file, "--by", asker)
    change = run_json(pharos, "variables", "show", environment_path)["pending_change_id"]
    assert output == (
        f"Change {change} of {environment_path} waits for a second person:\n"
        f"  pharos approve variables {change} --by EMAIL\n"
    )
    assert f"Change {change} waits for approval" in run_text(pharos, "variables", "show", environment_path)
    (waiting,) = [one for one in run_json(pharos, "approvals")["variables"] if one["id"] == change]
    assert waiting["names"] == {"added": ["A", "B"], "changed": [], "removed": []}
    shown = " ".join(run_text(pharos, "approvals").split())
    assert "added A, B" in shown and "hunter" not in shown
    output = run_text(pharos, "approve", "variables", str(change), "--by", second)
    assert (
        output
        == f"Change {change} is applied: {environment_path} has 2 variables. {_not_live(environment_path)}\n"
    )
    change = run_json(pharos, "variables", "set", environment_path, file, "--by", asker)["change_id"]
    assert "the same as now" in " ".join(run_text(pharos, "approvals").split())
    decided = ("variables", str(change), "--by", second, "--reason", "needless")
    output = run_text(pharos, "reject", *decided)
    assert output == f"Change {change} of variables is rejected; the current variables stay.\n"
    assert "is rejected: only one that waits can be decided on" in expect_refusal(pharos, "reject", *decided)


def test_the_key_is_rotated_on_engines(
    on_engines: RunCommand, own_database_url: str, own_redis_url: str, file: str, tmp_path: Path
) -> None:
    created = run_json(
        on_engines, "environment", "create", f"Rotated {uuid.uuid4().hex[:8]}", "--type", "staging"
    )
    for _ in range(3):
        run_json(on_engines, "variables", "set", created["id"], file)

    def run_with(key: str) -> RunCommand:
        engines = {"PHAROS_DATABASE_URL": own_database_url, "PHAROS_REDIS_URL": own_redis_url}
        return command_runner(tmp_path, {**CLEAN_ENVIRONMENT, **engines, "PHAROS_VARIABLES_KEY": key})

    done = run_json(run_with(f"{NEW},{OLD}"), "variables", "rotate-key")
    assert done["resealed"] >= 3 and done["key_id"] == SealingKeys.read(NEW).key_id
    output = run_text(run_with(NEW), "variables", "rotate-key")
    assert output == f"Sealed again under key {done['key_id']}: 0. Nothing is left under another key.\n"
    line = expect_refusal(on_engines, "variables", "show", created["id"])
    assert "is not among PHAROS_VARIABLES_KEY. Put its secret behind the present one: new,old." in line
    assert run_json(run_with(NEW), "variables", "show", created["id"])["names"] == ["A", "B"]
    # The setting of the other tests of this file.
    run_json(run_with(f"{OLD},{NEW}"), "variables", "rotate-key")


def test_the_key_is_rotated_embedded(tmp_path: Path, file: str) -> None:
    """Rotate through the key file, as the help describes."""
    data = tmp_path / "data"
    with platform_process(data) as platform:
        for _ in range(3):
            run_json(platform.run, "variables", "set", "production", file)
        assert platform.stop() == 0
    key = data / "variables.key"
    old = key.read_text().strip()
    # The webhook secret of the sample repository is sealed with the same keys.
    for secret, resealed in ((f"{NEW},{old}", {3, 4}), (NEW, {0})):
        key.write_text(f"{secret}\n")
        with platform_process(data) as platform:
            assert run_json(platform.run, "variables", "rotate-key")["resealed"] in resealed
            assert run_json(platform.run, "variables", "show", "production")["names"] == ["A", "B"]
            assert platform.stop() == 0


def test_a_file_of_the_maximum_size_is_accepted(on_socket: PlatformProcess, tmp_path: Path) -> None:
    """256 KiB of characters that take six bytes each in JSON."""
    path = tmp_path / "big.env"
    lines = ["A" * 9 + f"{n}='" + "\x01" * 120_000 + "'\n" for n in range(2)]
    path.write_text("".join(lines))
    assert run_json(on_socket.run, "variables", "set", "production", str(path))["count"] == 2
    path.write_text("A=" + "x" * 256 * 1024)
    line = expect_refusal(on_socket.run, "variables", "set", "production", str(path))
    assert line == f"{path} has more than 256 KiB, which is the maximum."


def test_a_missing_variables_key_is_reported(on_engines: RunCommand, file: str) -> None:
    without = ("PHAROS_VARIABLES_KEY",)
    output = "Set PHAROS_VARIABLES_KEY as well: variables are sealed with it.\n"
    for command in (["show", "production"], ["set", "production", file], ["rotate-key"]):
        done = on_engines("variables", *command, without=without)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"pharos: {output}")
    run_json(on_engines, "person", "add", "owner@alone.example", "--name", "Owner", "--role", "owner")
    run_json(on_engines, "environment", "set", "production", "--variable-approval", "on")
    run_json(on_engines, "variables", "set", "production", file, "--by", "owner@alone.example")
    done = on_engines("approvals", without=without)
    assert (done.returncode, done.stderr) == (0, "")
    assert "names not known" in done.stdout and done.stdout.endswith(output)


def test_impossible_requests_fail_with_one_sentence(
    pharos: RunCommand, environment_path: str, tmp_path: Path
) -> None:
    assert "There is no environment nowhere;" in expect_refusal(pharos, "variables", "show", "nowhere")
    missing = str(tmp_path / "missing")
    line = expect_refusal(pharos, "variables", "set", environment_path, missing)
    assert line == f"{missing} cannot be read: No such file or directory."
    bad = tmp_path / "bad.env"
    bad.write_bytes(b"A=\xff\n")
    line = expect_refusal(pharos, "variables", "set", environment_path, str(bad))
    assert line == f"{bad} is not UTF-8 text: save it in UTF-8."
    bad.write_text("A=1\nhunter2\n")
    line = expect_refusal(pharos, "variables", "set", environment_path, str(bad))
    assert line == "line 2: there is no =. Correct this and set them all again; nothing was changed."
    line = expect_refusal(pharos, "variables", "set", environment_path, str(bad), "--by", "nobody@x")
    assert "line 2" in line
    bad.write_text("A=1\n")
    line = expect_refusal(pharos, "variables", "set", environment_path, str(bad), "--by", "nobody@x")
    assert line == "There is no person 'nobody@x'; `pharos person list` shows all."
    line = expect_refusal(pharos, "variables", "protect", environment_path, "A", "B=hunter2")
    assert line == (
        "Number 2 of the names is none: a name has letters, digits and _, no digit first, and at most 255 characters. "
        "Nothing was changed."
    )


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        ((), "the following arguments are required: ACTION"),
        (("show",), "the following arguments are required: ENVIRONMENT"),
        (("set", "production"), "the following arguments are required: FILE"),
        (("protect", "production"), "the following arguments are required: NAME"),
        (("unprotect", "production"), "the following arguments are required: NAME"),
    ):
        done = command_runner(tmp_path)("variables", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr


def test_the_help_explains_the_rotation(tmp_path: Path) -> None:
    done = command_runner(tmp_path)("variables", "rotate-key", "--help")
    output = " ".join(done.stdout.split())
    assert "PHAROS_VARIABLES_KEY=new,old" in output and "DIR/variables.key" in output
