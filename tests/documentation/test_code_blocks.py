"""Every code block of the README and of `docs/`: shell blocks run, the others pass the reader of their language."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.documentation.markdown_blocks import (
    ROOT,
    SHELL,
    find_unnamed_files,
    list_missing_needs,
    list_pages,
    read_blocks,
)
from tests.documentation.page_accounts import create_page_account
from tests.documentation.shell_pages import find_missing_line, run_page
from tests.documentation.static_blocks import (
    find_command_fault,
    find_fault,
    find_shell_fault,
    split_commands,
)
from tests.support.engines import EngineMissing, free_port, skip_if_missing
from tests.support.platform_process import PlatformProcess, platform_process

_PAGES = {str(page.relative_to(ROOT)): read_blocks(page) for page in list_pages()}
_BLOCKS = [block for blocks in _PAGES.values() for block in blocks]
_WITH_SHELL = [
    page
    for page, blocks in _PAGES.items()
    if any(block.language in SHELL and block.reason_not_to_run is None for block in blocks)
]
# In `make test`, `test_other_blocks_pass_the_reader_of_their_language` checks their commands.
_SLOW = {
    # It compiles Go's library. `test_an_application_is_recognized` covers what `pharos init` writes.
    "docs/guides/deploy-go.md",
    # It downloads Express. `test_a_recognized_application_is_deployed` deploys a Node application.
    "docs/guides/deploy-node.md",
}
assert set(_WITH_SHELL) >= _SLOW
_MOST_NOT_RUN = 64
"""Lower this number when another block runs. Raise it only for a block that no test can run."""
_PAGES_AT_ONCE = 3
_GIT_CONFIGURATION = "[user]\n\tname = me\n\temail = me@example.com\n[init]\n\tdefaultBranch = main\n"


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """Run the chosen pages, a few at a time, against one platform, each in a folder like that of `make up`."""
    top = tmp_path_factory.mktemp("documentation")
    (top / "gitconfig").write_text(_GIT_CONFIGURATION)
    apps_port = free_port()
    threads = ThreadPoolExecutor(_PAGES_AT_ONCE)
    with platform_process(top / "data", "--apps-port", str(apps_port)) as platform:
        try:
            runnable = [page for page in _chosen_pages(request) if not list_missing_needs(ROOT / page)]
            yield {page: threads.submit(_run_page, page, platform, top, apps_port) for page in runnable}
        finally:
            threads.shutdown(cancel_futures=True)


def _chosen_pages(request: pytest.FixtureRequest) -> list[str]:
    """Return the pages whose tests this run has selected."""
    chosen = {
        item.callspec.params.get("page")
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec")
    }
    return [page for page in _WITH_SHELL if page in chosen]


def _run_page(page: str, platform: PlatformProcess, top: Path, apps_port: int) -> None:
    slug = page.lower().removesuffix(".md").replace("/", "-")
    account = create_page_account(platform, top / slug, slug)
    env = {
        "BASE": f"http://127.0.0.1:{platform.port}",
        "KEY": account.credentials["ingest_key"],
        "TOKEN": account.credentials["api_token"],
        "PHAROS_DEFAULT_ENVIRONMENT": f"{account.project}/production",
        "HOME": str(account.folder),
        "TMPDIR": str(account.folder),
        "GIT_CONFIG_GLOBAL": str(top / "gitconfig"),
    }
    replaced = {
        "127.0.0.1:8000": f"127.0.0.1:{platform.port}",
        "localhost:8000": f"localhost:{platform.port}",
        "localhost:8090": f"localhost:{apps_port}",
        "127.0.0.1:8090": f"127.0.0.1:{apps_port}",
        "127.0.0.1:8100": f"127.0.0.1:{platform.metrics_port}",
        "my-project": account.project,
    }
    run_page(_PAGES[page], account.folder, env, replaced)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.full) if page in _SLOW else page for page in _WITH_SHELL],
)
def test_the_shell_blocks_of_a_page_run(results: dict[str, Future[None]], page: str) -> None:
    with skip_if_missing():
        if missing := list_missing_needs(ROOT / page):
            raise EngineMissing(f"{page} needs {', '.join(missing)}.")
    results[page].result()


def test_other_blocks_pass_the_reader_of_their_language() -> None:
    faults = [f"{block.place}: {fault}" for block in _BLOCKS if (fault := find_fault(block))]
    slow = [block for page in sorted(_SLOW) for block in _PAGES[page] if block.language in SHELL]
    faults += [f"{block.place}: {fault}" for block in slow if (fault := find_shell_fault(block))]
    assert not faults, "\n".join(faults)


def test_blocks_that_do_not_run_have_a_reason_and_are_few() -> None:
    marked = [block for block in _BLOCKS if block.reason_not_to_run is not None]
    assert [block.place for block in marked if not block.reason_not_to_run] == []
    assert len(marked) <= _MOST_NOT_RUN, "\n".join(f"{one.place}: {one.reason_not_to_run}" for one in marked)


def test_the_text_before_a_block_names_its_file() -> None:
    unnamed = {
        page: found
        for page in _PAGES
        if (found := find_unnamed_files((ROOT / page).read_text(encoding="utf-8")))
    }
    assert unnamed == {}


@pytest.mark.parametrize(
    ("above", "unnamed"),
    [
        ("Save this as `a.py`:\n\n<!-- file: a.py -->", []),
        ("Save this as `a.py`:\n\n<!-- needs: b -->\n<!-- file: a.py -->\n", []),
        ("Save this as `a.py`.\n\nRun it:\n\n<!-- file: a.py -->", ["a.py"]),
        ("```sh\npython a.py\n```\n\n<!-- file: a.py -->", ["a.py"]),
        ("<!-- file: a.py -->", ["a.py"]),
        ("Text.", []),
    ],
)
def test_a_file_that_only_a_comment_names_is_found(above: str, unnamed: list[str]) -> None:
    assert find_unnamed_files(f"# Title\n\n{above}\n```python\nx\n```\n") == unnamed


@pytest.mark.parametrize(
    ("expected", "output", "missing"),
    [
        ("live", "queued\nlive", None),
        ("live\nqueued", "queued\nlive", "queued"),
        ("deployment 7 …", "deployment 12 is  live", None),
        ("deployment 7", "deployment of 7", "deployment 7"),
        ("a.b", "a+b", "a.b"),
    ],
)
def test_shown_output_is_compared_loosely(expected: str, output: str, missing: str | None) -> None:
    assert find_missing_line(expected, output) == missing


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("pharos deploy production  # a comment", None),
        ("pharos ps; pharos logs -f production", None),
        ("A=1 pharos deploy --nothing", "--nothing"),
        ("echo; pharos deplyo", "no command deplyo"),
        ("make up && make nothing", "no target nothing"),
        ("pharos config plan a.yaml || test $? -eq 2", None),
    ],
)
def test_commands_that_do_not_run_are_parsed(text: str, fault: str | None) -> None:
    found = [one for words in split_commands(text) if (one := find_command_fault(words))]
    assert (fault in found[0]) if fault else not found


def test_comments_above_a_block_belong_to_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- before: cd /\nls -->\n<!-- not run: needs DNS -->\n\n```sh\ndig x\n```\n\n"
        "<!-- file: a/b.py -->\nText.\n\n```python\nx\n```\n"
    )
    first, second = read_blocks(page, tmp_path)
    assert (first.place, first.notes) == ("page.md:6", {"before": "cd /\nls", "not run": "needs DNS"})
    assert second.notes == {}


def test_a_page_names_the_programs_and_modules_that_it_needs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- needs: bash, no-such-program -->\n\n<!-- needs: module:json, module:no_such_module -->\n"
    )
    assert list_missing_needs(page) == ["no-such-program", "module:no_such_module"]
