"""The checks of code blocks find faults: failed commands, other output, and documents that their readers refuse."""

from pathlib import Path

import pytest

from tests.documentation.markdown_blocks import Block, read_blocks
from tests.documentation.shell_pages import PageFailure, run_page
from tests.documentation.static_blocks import find_fault


def _run(folder: Path, text: str) -> None:
    page = folder / "page.md"
    page.write_text(text)
    (folder / "run").mkdir()
    run_page(read_blocks(page, folder), folder / "run", {"NAME": "value"}, {"127.0.0.1:8000": "127.0.0.1:9"})


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nA=1\n```\n\n```sh\ntest $A = 1; test $NAME = value\n```\n",
        "```sh\necho 127.0.0.1:8000 | grep :9\n```\n",
        "<!-- file: a/b.txt -->\n```text\n$HOME\n```\n\n```sh\ngrep -F '$HOME' a/b.txt\n```\n",
        "<!-- before: x() { echo 12; } -->\n```console\n$ x\n7\n```\n",
        "```sh\necho on; echo off\n```\n\n<!-- output -->\n```text\non\n…f\n```\n",
        "<!-- not run: it fails -->\n```sh\nfalse\n```\n\n```sh\ntrue\n```\n",
        "```sh\nfalse || test $? -eq 1\nmake up && make test ARGS=-x\n```\n",
        "```sh\nsleep 1000 &\n```\n",
    ],
)
def test_a_page_runs(tmp_path: Path, text: str) -> None:
    _run(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("# T\n\n```sh\necho a\nfalse\necho b\n```\n", ("page.md:4", "exit status 1", "status 1 of: false")),
        ("```sh\ntrue\n```\n\n```sh\nls nowhere\n```\n", ("page.md:6", "nowhere")),
        ("```sh\nfalse; true\n```\n", ("page.md:2",)),
        ("```sh\nmake nothing\n```\n", ("make: no target nothing",)),
        ("```console\n$ echo one\ntwo\n```\n", ("page.md:2", "no line like: two")),
        (
            "```sh\necho a; echo b\n```\n\n<!-- output -->\n```text\nb\na\n```\n",
            ("page.md:7", "no line like: a"),
        ),
        ("```sh\ncat\nread -r line\n```\n", ("exit status 1",)),
    ],
)
def test_a_page_that_fails_says_where_and_why(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(PageFailure) as failure:
        _run(tmp_path, text)
    assert [part for part in parts if part not in str(failure.value)] == []


@pytest.mark.parametrize(
    ("language", "text", "fault"),
    [
        ("json", '{"a": 1,}', "Expecting"),
        ("yaml", "a: [", "expected"),
        ("yaml", "version: 1\nprocesses: {web: {comand: x}}\n", "comand"),
        ("yaml", "version: 2\nenvironments: {production: {replica: 2}}\n", "replica"),
        ("python", "def f(:\n", "invalid syntax"),
        ("javascript", "const = 1", "SyntaxError"),
        ("toml", "a = ", "Invalid value"),
        ("html", "<p", "not closed"),
        ("nginx", "location / { proxy_pass x;", "uneven brackets"),
        ("", "x", "no check"),
        ("klingon", "x", "no check"),
    ],
)
def test_a_block_that_its_reader_refuses_is_found(language: str, text: str, fault: str) -> None:
    found = find_fault(Block("docs/testing.md", 1, language, text))
    assert found is not None and fault in found


@pytest.mark.parametrize(
    ("text", "fault"),
    [("if true; then\n", "syntax error"), ("pharos deploy --nothing\n", "--nothing"), ("ls nowhere\n", None)],
)
def test_shell_blocks_that_do_not_run_are_parsed(text: str, fault: str | None) -> None:
    found = find_fault(Block("docs/testing.md", 1, "sh", text, {"not run": "a reason"}))
    assert (fault in (found or "")) if fault else found is None
