"""`pharos login`, `logout`, `whoami` and `profile` against a server that knows one token."""

import argparse
import io
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_cli.api.profiles import Profiles
from operator_cli.errors import CommandFailed
from operator_cli.login import login
from tests.support import fork_server
from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, command_runner
from tests.support.fake_api import NO_ANSWER, Answer, FakeApi, problem, running_fake_api
from tests.support.platform_process import PHAROS

TOKEN = "phr_pat_secret"


@pytest.fixture
def server() -> Iterator[FakeApi]:
    with running_fake_api() as running:
        running.by_path["/api/v1/account"] = Answer(content={"data": {"id": "acc_1", "slug": "acme"}})
        running.by_path["/api/v1/me"] = Answer(
            content={"data": {"person": {"name": "Ada", "email": "ada@example.com"}}}
        )
        yield running


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**CLEAN_ENVIRONMENT, "HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def command(tmp_path: Path, environment: dict[str, str]) -> RunCommand:
    (tmp_path / "here").mkdir()
    return command_runner(tmp_path / "here", environment)


def _stored(tmp_path: Path) -> dict[str, str]:
    document = json.loads((tmp_path / "config" / "pharos" / "profiles.json").read_text())
    return {name: profile["token"] for name, profile in document["profiles"].items()}


def test_a_token_on_standard_input_is_checked_and_stored(
    server: FakeApi, command: RunCommand, tmp_path: Path
) -> None:
    host = server.url.removesuffix("/api")
    done = command("login", host, stdin=f"{TOKEN}\n")
    name = f"127.0.0.1-{server.server_address[1]}"
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == f"Logged in to the account acme at {host}. The profile {name} is now the current one.\n"
    )
    assert _stored(tmp_path) == {name: TOKEN}
    shown = json.loads(command("whoami", "--json").stdout)
    assert (shown["installation"], shown["account"]["slug"]) == (server.url, "acme")
    assert shown["credential"] == f"the token of the profile {name}"
    assert TOKEN not in command("whoami").stdout + command("profile", "list", "--json").stdout


def test_a_token_is_asked_for_at_a_terminal_without_echo(
    server: FakeApi, tmp_path: Path, environment: dict[str, str]
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(PHAROS), "login", server.url],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    output = b""
    while b"Token (not shown): " not in output:
        output += os.read(ours, 1000)
    os.write(ours, f"{TOKEN}\n".encode())
    while b"current one" not in output:
        output += os.read(ours, 1000)
    assert process.wait(60) == 0
    os.close(ours)
    assert TOKEN.encode() not in output
    assert list(_stored(tmp_path).values()) == [TOKEN]


def test_a_refused_token_is_not_stored(server: FakeApi, command: RunCommand, tmp_path: Path) -> None:
    server.by_path["/api/v1/account"] = problem(401, "invalid-credential", "This token was revoked.")
    done = command("login", server.url, stdin=TOKEN)
    assert (done.returncode, done.stdout) == (4, "")
    assert "refused this token: this token was revoked." in done.stderr and TOKEN not in done.stderr
    assert not (tmp_path / "config").exists()


def test_a_token_that_may_not_read_the_account_is_stored(
    server: FakeApi, command: RunCommand, tmp_path: Path
) -> None:
    server.by_path["/api/v1/account"] = problem(403, "missing-scope", "It lacks account:read.")
    done = command("login", server.url, "--profile", "ci", stdin=TOKEN)
    assert (done.returncode, done.stderr) == (
        0,
        "pharos: The token may not read its account (account:read).\n",
    )
    assert _stored(tmp_path) == {"ci": TOKEN}
    assert "unknown: the token lacks account:read" in command("whoami").stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "message"),
    [
        (("http://127.0.0.1:9",), "", 4, "Nothing was entered"),
        (("http://127.0.0.1:9",), TOKEN, 1, "Nothing listens at http://127.0.0.1:9"),
        (("http://127.0.0.1:9", "--profile", "a/b"), TOKEN, 2, "is not a valid name of a profile"),
        (("http://127.0.0.1:9", "--name", "Ada"), TOKEN, 2, "--name is for --invitation"),
        (("ftp://127.0.0.1",), TOKEN, 1, "is not an address"),
        ((), TOKEN, 2, "the following arguments are required: URL"),
    ],
)
def test_failed_login_is_reported(
    command: RunCommand, tmp_path: Path, arguments: tuple[str, ...], stdin: str, status: int, message: str
) -> None:
    done = command("login", *arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert not (tmp_path / "config").exists()


def test_a_token_on_the_command_line_is_refused(command: RunCommand) -> None:
    """Other users of the machine can read it there."""
    assert command("login", "http://127.0.0.1:9", TOKEN).returncode == 2


def test_an_invitation_is_exchanged_for_a_token(server: FakeApi, command: RunCommand, tmp_path: Path) -> None:
    server.by_path["/api/v1/invitations/accept"] = Answer(201, {"data": {"api_token": "phr_pat_new"}})
    done = command(
        "login", server.url, "--invitation", "--name", "Ada", "--profile", "acme", stdin="phr_inv_x"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert _stored(tmp_path) == {"acme": "phr_pat_new"}
    accepted, checked = server.requests
    assert accepted.body == {"invitation": "phr_inv_x", "name": "Ada"}
    assert "authorization" not in accepted.headers
    assert checked.headers["authorization"] == "Bearer phr_pat_new"


_ACCEPT = "/api/v1/invitations/accept"
_JOINING = ("--invitation", "--name", "Ada", "--profile", "acme")


@pytest.mark.parametrize(
    ("config", "message"),
    [("{", "profiles.json is damaged"), (None, "profiles.json cannot be written: Not a directory")],
)
def test_an_invitation_is_not_used_up_if_its_token_cannot_be_kept(
    server: FakeApi, command: RunCommand, tmp_path: Path, config: str | None, message: str
) -> None:
    if config is None:
        (tmp_path / "config").write_text("")
    else:
        (tmp_path / "config" / "pharos").mkdir(parents=True)
        (tmp_path / "config" / "pharos" / "profiles.json").write_text(config)
    done = command("login", server.url, *_JOINING, stdin="phr_inv_x")
    assert (done.returncode, server.requests) == (1, [])
    assert message in done.stderr


def test_the_token_of_an_invitation_is_stored_before_it_is_checked(
    server: FakeApi, command: RunCommand, tmp_path: Path
) -> None:
    server.by_path[_ACCEPT] = Answer(201, {"data": {"api_token": "phr_pat_new"}})
    server.by_path["/api/v1/account"] = problem(503, "unavailable", "Away.")
    done = command("login", server.url, *_JOINING, stdin="phr_inv_x")
    assert (done.returncode, _stored(tmp_path)) == (0, {"acme": "phr_pat_new"})
    assert (
        done.stderr == "pharos: The token is stored, but not checked yet: Away. `pharos whoami` checks it.\n"
    )
    assert done.stdout.startswith("Logged in at http://")


def test_the_token_of_an_invitation_is_shown_if_it_cannot_be_stored(
    server: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"phr_inv_x")))
    server.by_path[_ACCEPT] = Answer(201, {"data": {"api_token": "phr_pat_new"}})

    def write(profiles: Profiles) -> None:
        if profiles.by_name:
            raise CommandFailed("profiles.json cannot be written: No space left on device.")

    monkeypatch.setattr(login, "write_profiles", write)
    arguments = argparse.Namespace(url=server.url, profile="acme", name="Ada", invitation=True)
    with pytest.raises(CommandFailed, match="No space left on device.\nYou have joined.*: phr_pat_new"):
        login._log_in(arguments)


@pytest.mark.parametrize("answer", [NO_ANSWER, Answer(504, b"", {"Content-Type": "text/html"})])
def test_failed_acceptance_says_that_the_person_may_have_joined(
    server: FakeApi, command: RunCommand, answer: Answer
) -> None:
    """A repetition would be refused, as the invitation is used up."""
    server.by_path[_ACCEPT] = answer
    done = command("login", server.url, *_JOINING, stdin="phr_inv_x")
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert "You may have joined already, without a token" in done.stderr


def test_several_profiles(server: FakeApi, command: RunCommand, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert command("login", server.url, "--profile", name, stdin=f"phr_pat_{name}").returncode == 0
    assert [line[:5] for line in command("profile", "list").stdout.splitlines()] == ["  one", "* two"]
    assert command("whoami", "--profile", "one").stdout.count("profile one") == 1
    assert command("profile", "use", "one").returncode == 0
    assert "profile one" in command("whoami").stdout
    assert command("profile", "use", "onee").stderr.startswith(
        "pharos: There is no profile 'onee'. Did you mean 'one'?"
    )
    assert "No profile is current now" in command("logout").stdout
    assert _stored(tmp_path) == {"two": "phr_pat_two"}
    assert command("whoami").returncode == 4
    assert command("profile", "remove", "two").returncode == 0
    assert command("profile", "list").stdout.endswith("makes one.\n")
    assert command("logout").returncode == 1


def test_the_local_installation_of_the_folder_is_mentioned(
    server: FakeApi, command: RunCommand, tmp_path: Path
) -> None:
    data = tmp_path / "here" / ".pharos"
    data.mkdir()
    (data / "credentials.json").write_text("{}")
    (data / "credentials.json").chmod(0o600)
    done = command("login", server.url, "--profile", "prod", stdin=TOKEN)
    assert "still use the local installation in .pharos; --profile prod" in done.stdout


def test_a_token_sent_in_the_clear_is_warned_about(tmp_path: Path, environment: dict[str, str]) -> None:
    done = fork_server.run(
        [str(PHAROS), "login", "http://no-such-host.invalid"],
        input=TOKEN, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert "is sent unencrypted" in done.stderr
