"""Private files and groups of an ordinary user who runs Pharos."""

import os
import pwd
from pathlib import Path

import pytest

from deployer.processes.operator_account import operator_groups, operator_paths


def test_private_files_of_an_ordinary_user_are_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert operator_paths() == ()
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setenv("HOME", str(tmp_path))
    places = set(operator_paths())
    home = Path(pwd.getpwuid(65534).pw_dir)
    # ssh uses the home of passwd, most other programs the home of the environment.
    assert places >= {tmp_path / ".ssh", home / ".ssh", tmp_path / ".config", Path("/run/user/65534")}
    # Version managers keep toolchains in these.
    assert not places & {
        tmp_path,
        tmp_path / ".pyenv",
        tmp_path / ".nvm",
        tmp_path / ".cargo",
        tmp_path / ".local",
    }
    monkeypatch.setenv("HOME", "relative")
    assert all(sandbox.is_absolute() for sandbox in operator_paths())


def test_commands_of_an_ordinary_user_keep_the_other_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getgroups", lambda: [1000, 998, 27])
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert operator_groups() == (27, 998)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert operator_groups() == ()
