"""The installation and the credential that a command uses."""

import argparse
import json
from pathlib import Path

import pytest

from operator_cli.api.profiles import Profile, Profiles, profiles_file, read_profiles, write_profiles
from operator_cli.api.target import find_target
from operator_cli.errors import CommandFailed, NoSuchName, NotLoggedIn, UsageError

_VARIABLES = {"PHAROS_URL": "https://variables.example", "PHAROS_TOKEN": "from-variables"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new home folder and a new current folder."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    for made in (home, folder):
        made.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(folder)
    return home


def _log_in(*names: str, current: str | None = None) -> None:
    profiles = {name: Profile(name, f"https://{name}.example/api", f"from-{name}") for name in names}
    write_profiles(Profiles(profiles, current))


def _start_up(folder: Path, mode: int = 0o600) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / "credentials.json"
    file.write_text(json.dumps({"base_url": "http://127.0.0.1:8000/api", "api_token": f"from-{folder.name}"}))
    file.chmod(mode)


def _token(
    *, profile: str | None = None, data: str | None = None, variables: dict[str, str] | None = None
) -> str | None:
    arguments = argparse.Namespace(profile=profile, data=None if data is None else Path(data))
    return find_target(arguments, variables or {}).token


def test_the_order_of_the_choices() -> None:
    """Each step removes the choice that had precedence before."""
    _log_in("prod", "named", "current", current="current")
    _start_up(Path(".pharos"))
    _start_up(Path("other"))
    variables = {**_VARIABLES, "PHAROS_PROFILE": "named"}
    assert _token(profile="prod", variables=variables) == "from-prod"
    assert _token(data="other", variables=variables) == "from-other"
    assert _token(variables=variables) == "from-variables"
    assert _token(variables={"PHAROS_PROFILE": "named"}) == "from-named"
    assert _token() == "from-.pharos"
    Path(".pharos/credentials.json").unlink()
    assert _token() == "from-current"


def test_a_newcomer_needs_no_login() -> None:
    _start_up(Path(".pharos"))
    target = find_target(argparse.Namespace(), {})
    assert (target.base_url, target.token) == ("http://127.0.0.1:8000/api", "from-.pharos")


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_credentials_of_other_users_are_used_only_if_named(mode: int) -> None:
    """A repository may contain a data folder, but Git does not store private file modes."""
    _start_up(Path(".pharos"), mode)
    with pytest.raises(NotLoggedIn, match="used only with --data .pharos"):
        _token()
    assert _token(data=".pharos") == "from-.pharos"
    _log_in("current", current="current")
    assert _token() == "from-current"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PHAROS_URL": "https://x.example"}, "PHAROS_URL is set without PHAROS_TOKEN"),
        ({"PHAROS_TOKEN": "x"}, "PHAROS_TOKEN is set without PHAROS_URL"),
        ({"PHAROS_TOKEN_FILE": "x"}, "PHAROS_TOKEN_FILE is set without PHAROS_URL"),
        ({**_VARIABLES, "PHAROS_TOKEN_FILE": "x"}, "are both set"),
        ({**_VARIABLES, "PHAROS_URL": "ftp://x"}, "not an address"),
        ({**_VARIABLES, "PHAROS_URL": "https://ada:secret@x"}, "has a user, a query or a fragment"),
    ],
)
def test_half_a_pair_of_variables_is_an_error(variables: dict[str, str], message: str) -> None:
    _log_in("current", current="current")
    with pytest.raises(CommandFailed, match=message):
        _token(variables=variables)
    assert _token(profile="current", variables=variables) == "from-current"


def test_address_next_to_an_ingest_key_belongs_to_the_client_library() -> None:
    """Applications that Pharos deploys have both variables, and so have those that use a client library."""
    client = {"PHAROS_URL": "https://x.example", "PHAROS_INGEST_KEY": "phr_ing_x"}
    _log_in("current", "named", current="current")
    assert _token(variables=client) == "from-current"
    assert (
        _token(variables={"PHAROS_URL": "https://x.example", "PHAROS_QUEUES": "mail=2:x"}) == "from-current"
    )
    assert _token(variables={**client, "PHAROS_PROFILE": "named"}) == "from-named"
    assert _token(variables={**client, "PHAROS_TOKEN": "from-variables"}) == "from-variables"
    with pytest.raises(CommandFailed, match="PHAROS_URL is set without PHAROS_TOKEN"):
        _token(variables={**client, "PHAROS_INGEST_KEY": ""})
    with pytest.raises(CommandFailed, match="PHAROS_TOKEN is set without PHAROS_URL"):
        _token(variables={**client, "PHAROS_URL": "", "PHAROS_TOKEN": "x"})


def test_empty_variables_count_as_unset() -> None:
    _log_in("current", current="current")
    assert _token(variables={"PHAROS_URL": "", "PHAROS_TOKEN": "", "PHAROS_PROFILE": ""}) == "from-current"


def test_the_token_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    variables = {"PHAROS_URL": "https://x.example", "PHAROS_TOKEN_FILE": str(file)}
    with pytest.raises(NotLoggedIn, match="cannot be read"):
        _token(variables=variables)
    file.write_text("from-file\n")
    assert _token(variables=variables) == "from-file"


@pytest.mark.parametrize("token", ["two words", "tökén", "line\nbreak", " "])
def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        _token(variables={**_VARIABLES, "PHAROS_TOKEN": token})
    assert token.strip() not in str(failed.value) or not token.strip()


def test_flags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError):
        _token(profile="prod", data=".pharos")


def test_an_unknown_profile_gets_a_suggestion() -> None:
    _log_in("production")
    with pytest.raises(NoSuchName, match="Did you mean 'production'"):
        _token(profile="prodution")


def test_error_without_any_credential_names_the_ways_to_begin() -> None:
    with pytest.raises(NotLoggedIn, match="`pharos login URL`.*`pharos up`.*--data"):
        _token()
    _log_in("prod")
    with pytest.raises(NotLoggedIn, match="`pharos profile use NAME`"):
        _token()


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"profiles": {"a": {}}}', '{"profiles": 1}', '{"profiles": {}, "current": ["a"]}', "\xff"],
)
def test_a_damaged_file_is_named(content: str) -> None:
    file = profiles_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(CommandFailed, match="profiles.json (is damaged|cannot be read)"):
        read_profiles()


def test_file_is_private_and_in_the_configured_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _log_in("prod")
    file = home / ".config" / "pharos" / "profiles.json"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(file.parent.iterdir()) == [file]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configured"))
    _log_in("other")
    assert set(read_profiles().by_name) == {"other"}
    assert (tmp_path / "configured" / "pharos" / "profiles.json").exists()
