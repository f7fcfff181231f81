"""`pharos variables` on both kinds of installation."""

import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from control_domain.sealing import SealingKeys
from tests.support.commands import CLEAN, Run, ask, refused, run_in, tell
from tests.support.platform_process import PlatformProcess, platform_process

OLD, NEW = "an old secret of thirty-two characters", "a new secret of thirty-two characters!"
SET = "# what it runs with\nexport A=hunter2\nB='hunter3'\n"


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    return {"PHAROS_VARIABLES_KEY": OLD}


@pytest.fixture
def place(pharos: Run) -> str:
    """An environment of its own."""
    made = ask(pharos, "environment", "create", f"Env {uuid.uuid4().hex[:8]}", "--type", "staging")
    return f"{made['project']['slug']}/{made['slug']}"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A dotenv file with the variables A and B."""
    path = tmp_path / "live.env"
    path.write_text(SET)
    return str(path)


def _not_live(place: str) -> str:
    return f"Not live until the next deploy: `pharos deploy {place}`."


def test_variables_through_their_commands(pharos: Run, place: str, file: str) -> None:
    told = tell(pharos, "variables", "show", place)
    assert told == f"{place} has no variables yet. `pharos variables set {place} FILE` sets them.\n"
    told = tell(pharos, "variables", "set", place, file)
    assert told == f"{place} has 2 variables. {_not_live(place)}\n"
    shown = ask(pharos, "variables", "show", place)
    assert (shown["version"], shown["names"], shown["set_by"]) == (1, ["A", "B"], None)
    told = tell(pharos, "variables", "show", place)
    assert told == f"{place}: version 1, set {shown['set_at']}, 2 variables\n  A\n  B\n"
    done = pharos("variables", "set", place, "-", stdin="C=1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert ask(pharos, "variables", "show", place)["names"] == ["C"]


def test_variables_are_protected_through_their_commands(pharos: Run, place: str, file: str) -> None:
    told = tell(pharos, "variables", "protect", place, "B", "LATER")
    assert told == (
        f"Protected in {place}: B, LATER. Previews get no copy from now on.\n"
        "Not set yet: B, LATER. Once set they are protected.\n"
    )
    told = tell(pharos, "variables", "show", place)
    assert told.endswith("\nProtected, but not set: B, LATER.\n")
    ask(pharos, "variables", "set", place, file)
    told = tell(pharos, "variables", "show", place)
    assert told.endswith("2 variables\n  A\n  B  (protected)\nProtected, but not set: LATER.\n")
    assert ask(pharos, "variables", "show", place)["protected"] == ["B", "LATER"]
    told = tell(pharos, "variables", "protect", place, "B", "A")
    assert told == (
        f"Protected in {place}: A. Previews get no copy from now on.\nProtected already in {place}: B.\n"
    )
    told = tell(pharos, "variables", "unprotect", place, "A", "LATER")
    assert told == f"Not protected any more in {place}: A, LATER.\n"
    told = tell(pharos, "variables", "unprotect", place, "A")
    assert told == f"Not protected before in {place}: A.\n"
    assert ask(pharos, "variables", "unprotect", place, "A")["protected"] == ["B"]


@pytest.mark.parametrize("pharos", ["socket", "engines"], indirect=True)
def test_a_second_person_agrees(pharos: Run, place: str, file: str) -> None:
    people = {"asker@variables.example": "deployer", "second@variables.example": "maintainer"}
    known = {person["email"] for person in ask(pharos, "person", "list")}
    for email, role in people.items():
        if email not in known:
            ask(pharos, "person", "add", email, "--name", role.title())
        ask(pharos, "project", "grant", place.partition("/")[0], email, "--role", role)
    asker, second = people
    ask(pharos, "environment", "set", place, "--variable-approval", "on")
    line = refused(pharos, "variables", "set", place, file)
    assert line.startswith("A second person has to agree to variables of this environment: say who asks")
    told = tell(pharos, "variables", "set", place, file, "--by", asker)
    change = ask(pharos, "variables", "show", place)["pending_change_id"]
    assert told == (
        f"Change {change} of {place} waits for a second person:\n  pharos approve variables {change} --by EMAIL\n"
    )
    assert f"Change {change} waits for approval" in tell(pharos, "variables", "show", place)
    (waiting,) = [one for one in ask(pharos, "approvals")["variables"] if one["id"] == change]
    assert waiting["names"] == {"added": ["A", "B"], "changed": [], "removed": []}
    shown = " ".join(tell(pharos, "approvals").split())
    assert "added A, B" in shown and "hunter" not in shown
    told = tell(pharos, "approve", "variables", str(change), "--by", second)
    assert told == f"Change {change} is applied: {place} has 2 variables. {_not_live(place)}\n"
    change = ask(pharos, "variables", "set", place, file, "--by", asker)["change_id"]
    assert "the same as now" in " ".join(tell(pharos, "approvals").split())
    decided = ("variables", str(change), "--by", second, "--reason", "needless")
    told = tell(pharos, "reject", *decided)
    assert told == f"Change {change} of variables is rejected; those that are set stay.\n"
    assert "is rejected: only one that waits can be decided on" in refused(pharos, "reject", *decided)


def test_keys_are_rotated_on_engines(
    on_engines: Run, own_database_url: str, own_redis_url: str, file: str, tmp_path: Path
) -> None:
    made = ask(on_engines, "environment", "create", f"Rotated {uuid.uuid4().hex[:8]}", "--type", "staging")
    for _ in range(3):
        ask(on_engines, "variables", "set", made["id"], file)

    def run_with(key: str) -> Run:
        engines = {"PHAROS_DATABASE_URL": own_database_url, "PHAROS_REDIS_URL": own_redis_url}
        return run_in(tmp_path, {**CLEAN, **engines, "PHAROS_VARIABLES_KEY": key})

    done = ask(run_with(f"{NEW},{OLD}"), "variables", "rotate-key")
    assert done["resealed"] >= 3 and done["key_id"] == SealingKeys.read(NEW).key_id
    told = tell(run_with(NEW), "variables", "rotate-key")
    assert told == f"Sealed again under key {done['key_id']}: 0. Nothing is left under another key.\n"
    line = refused(on_engines, "variables", "show", made["id"])
    assert "is not among PHAROS_VARIABLES_KEY. Put its secret behind the present one: new,old." in line
    assert ask(run_with(NEW), "variables", "show", made["id"])["names"] == ["A", "B"]
    # As the other tests of this file have it.
    ask(run_with(f"{OLD},{NEW}"), "variables", "rotate-key")


def test_keys_are_rotated_embedded(tmp_path: Path, file: str) -> None:
    """As the help of the command says, by the file."""
    data = tmp_path / "data"
    with platform_process(data) as platform:
        for _ in range(3):
            ask(platform.run, "variables", "set", "production", file)
        assert platform.stop() == 0
    key = data / "variables.key"
    old = key.read_text().strip()
    # The webhook secret of the repository that a first start makes is sealed with the same keys.
    for secret, resealed in ((f"{NEW},{old}", {3, 4}), (NEW, {0})):
        key.write_text(f"{secret}\n")
        with platform_process(data) as platform:
            assert ask(platform.run, "variables", "rotate-key")["resealed"] in resealed
            assert ask(platform.run, "variables", "show", "production")["names"] == ["A", "B"]
            assert platform.stop() == 0


def test_as_much_as_may_be_set_is_set(on_socket: PlatformProcess, tmp_path: Path) -> None:
    """256 KiB of characters that take six bytes each in JSON."""
    path = tmp_path / "big.env"
    lines = ["A" * 9 + f"{n}='" + "\x01" * 120_000 + "'\n" for n in range(2)]
    path.write_text("".join(lines))
    assert ask(on_socket.run, "variables", "set", "production", str(path))["count"] == 2
    path.write_text("A=" + "x" * 256 * 1024)
    line = refused(on_socket.run, "variables", "set", "production", str(path))
    assert line == f"{path} has more than 256 KiB, which is the most."


def test_without_the_key_it_is_asked_for(on_engines: Run, file: str) -> None:
    without = ("PHAROS_VARIABLES_KEY",)
    told = "Set PHAROS_VARIABLES_KEY as well: variables are sealed with it.\n"
    for command in (["show", "production"], ["set", "production", file], ["rotate-key"]):
        done = on_engines("variables", *command, without=without)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"pharos: {told}")
    ask(on_engines, "person", "add", "owner@alone.example", "--name", "Owner", "--role", "owner")
    ask(on_engines, "environment", "set", "production", "--variable-approval", "on")
    ask(on_engines, "variables", "set", "production", file, "--by", "owner@alone.example")
    done = on_engines("approvals", without=without)
    assert (done.returncode, done.stderr) == (0, "")
    assert "names not known" in done.stdout and done.stdout.endswith(told)


def test_what_cannot_be_is_one_sentence(pharos: Run, place: str, tmp_path: Path) -> None:
    assert "There is no environment nowhere;" in refused(pharos, "variables", "show", "nowhere")
    missing = str(tmp_path / "missing")
    line = refused(pharos, "variables", "set", place, missing)
    assert line == f"{missing} cannot be read: No such file or directory."
    bad = tmp_path / "bad.env"
    bad.write_bytes(b"A=\xff\n")
    line = refused(pharos, "variables", "set", place, str(bad))
    assert line == f"{bad} is no text in UTF-8: write it as such."
    bad.write_text("A=1\nhunter2\n")
    line = refused(pharos, "variables", "set", place, str(bad))
    assert line == "line 2: there is no =. Mend that and set them all again; nothing was changed."
    line = refused(pharos, "variables", "set", place, str(bad), "--by", "nobody@x")
    assert "line 2" in line
    bad.write_text("A=1\n")
    line = refused(pharos, "variables", "set", place, str(bad), "--by", "nobody@x")
    assert line == "There is no person 'nobody@x'; `pharos person list` shows all."
    line = refused(pharos, "variables", "protect", place, "A", "B=hunter2")
    assert line == (
        "Number 2 of the names is none: a name has letters, digits and _, no digit first, and at most 255 characters. "
        "Nothing was changed."
    )


def test_arguments_that_are_wrong(tmp_path: Path) -> None:
    """Refused before anything is asked."""
    for arguments, told in (
        ((), "the following arguments are required: ACTION"),
        (("show",), "the following arguments are required: ENVIRONMENT"),
        (("set", "production"), "the following arguments are required: FILE"),
        (("protect", "production"), "the following arguments are required: NAME"),
        (("unprotect", "production"), "the following arguments are required: NAME"),
    ):
        done = run_in(tmp_path)("variables", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr


def test_the_help_tells_how_to_rotate(tmp_path: Path) -> None:
    done = run_in(tmp_path)("variables", "rotate-key", "--help")
    told = " ".join(done.stdout.split())
    assert "PHAROS_VARIABLES_KEY=new,old" in told and "DIR/variables.key" in told
