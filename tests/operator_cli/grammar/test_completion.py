"""Candidates for completion, and the scripts in the shells that are installed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from operator_cli.grammar.completion import print_candidates
from operator_cli.grammar.completion_scripts import SCRIPTS
from operator_cli.grammar.known_names import read_names
from tests.support.fake_api import FakeApi, page, running_fake_api
from tests.support.platform_process import PHAROS

_PROJECTS = [
    {"slug": "shop", "environments": [{"slug": "production"}, {"slug": "staging"}]},
    {"slug": "blog", "environments": [{"slug": "production"}]},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder and a current folder without credentials or caches."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PHAROS_URL", "PHAROS_TOKEN", "PHAROS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> FakeApi:
    """A local installation with projects, which answers one request."""
    with running_fake_api() as running:
        data = folder / ".pharos"
        data.mkdir()
        file = data / "credentials.json"
        file.write_text(json.dumps({"base_url": running.url, "api_token": "phr_pat_x"}))
        file.chmod(0o600)
        running.answers.append(page(_PROJECTS))
        yield running


def _complete(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    print_candidates(words)
    return [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (("who",), ["whoami"]),
        (("profile", ""), ["list", "use", "remove"]),
        (("profiles", "u"), ["use"]),
        (("profile", "list", "--"), ["--help", "--json"]),
        (("profile", "list", "--json", "--"), ["--help"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("completion", "z"), ["zsh"]),
        (("whoami", "--data", ""), [":file"]),
        (("whoami", "--json", ""), []),
        (("no-such-command", ""), []),
        (("profile", "no-such-verb", ""), []),
        (("run", "--", ""), []),
        (("profile", "use", ""), []),
    ],
)
def test_words_are_completed(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], candidates: list[str]
) -> None:
    assert _complete(capsys, *words) == candidates


def test_all_commands_are_candidates_of_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"deploy", "project", "login"} <= set(_complete(capsys, ""))
    assert "__complete" not in _complete(capsys, "_")


def test_names_are_read_once_in_some_seconds(
    server: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ["staging", "shop/production", "shop/staging", "blog/production"]
    assert _complete(capsys, "lock", "") == paths
    assert _complete(capsys, "lock", "shop/") == ["shop/production", "shop/staging"]
    assert len(server.requests) == 1
    server.answers.append(page([]))
    monkeypatch.setattr("operator_cli.grammar.known_names._KEPT_SECONDS", 0)
    assert _complete(capsys, "lock", "") == []
    assert len(server.requests) == 2


def test_names_of_one_credential_are_not_shown_to_another(server: FakeApi, folder: Path) -> None:
    assert read_names("project", profile=None, data=None) == ["shop", "blog"]
    [kept] = (folder / ".cache" / "pharos").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    credentials = {"base_url": server.url, "api_token": "phr_pat_y"}
    (folder / ".pharos" / "credentials.json").write_text(json.dumps(credentials))
    server.answers.append(page([]))
    assert read_names("project", profile=None, data=None) == []


def test_unavailable_installation_completes_no_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _complete(capsys, "lock", "") == []
    (folder / ".pharos").mkdir()
    (folder / ".pharos" / "credentials.json").write_text(
        '{"base_url": "http://127.0.0.1:9/api", "api_token": "x"}'
    )
    (folder / ".pharos" / "credentials.json").chmod(0o600)
    assert _complete(capsys, "lock", "") == []


def _run_shell(shell: str, script: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**os.environ, "PATH": f"{PHAROS.parent}:{os.environ['PATH']}"}
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes(folder: Path) -> None:
    (folder / "some-folder").mkdir()
    script = SCRIPTS["bash"] + (
        'complete_at() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pharos; echo "${COMPREPLY[@]}"; }\n'
        "complete_at pharos profile u; complete_at pharos profile ''; complete_at pharos whoami --data some\n"
    )
    assert _run_shell("bash", script) == ["use", "list", "use", "remove", "some-folder"]


def test_fish_completes() -> None:
    script = SCRIPTS["fish"] + "complete -C 'pharos profile u'\n"
    assert _run_shell("fish", script)[:1] == ["use"]


def test_zsh_reads_the_script() -> None:
    """The completion itself needs a terminal."""
    assert _run_shell(
        "zsh", "autoload -Uz compinit; compinit -u; " + SCRIPTS["zsh"] + "echo ${_comps[pharos]}"
    ) == ["_pharos"]
