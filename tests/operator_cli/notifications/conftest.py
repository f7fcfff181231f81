"""Commands in this process, on a server whose responses a test sets."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from operator_cli.api.client import Api
from operator_cli.run_command import run_command
from tests.support.fake_api import TOKEN, FakeApi, running_fake_api


class Done(NamedTuple):
    """The result of a command."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def server() -> Iterator[FakeApi]:
    with running_fake_api() as running:
        yield running


@pytest.fixture
def run(
    server: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Return a function that runs `pharos` with these words, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHAROS_URL", server.url.removesuffix("/api"))
    monkeypatch.setenv("PHAROS_TOKEN", TOKEN)
    monkeypatch.setenv("COLUMNS", "80")
    # Completion caches names in a file.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    opened: list[Api] = []

    initialize = Api.__init__

    def record(self: Api, *arguments: Any, **options: Any) -> None:
        initialize(self, *arguments, **options)
        opened.append(self)

    # The end of a process closes connections. Here the end of a command does.
    monkeypatch.setattr(Api, "__init__", record)

    def run_words(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["pharos", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_command(lambda: None)
        while opened:
            opened.pop().close()
        captured = capsys.readouterr()
        status = ended.value.code
        assert isinstance(status, int)
        return Done(status, captured.out, captured.err)

    return run_words
