"""Relative links, anchors and mentions of pages, in all Markdown files and in the code."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.documentation.markdown_blocks import ROOT, list_pages
from web_dashboard.documentation.headings import Anchors
from web_dashboard.documentation.markdown import render_document

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SOURCE = re.compile(r"(?:src|srcset|href)=\"([^\"]+)\"")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_MENTION = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)\b")
_TEXTS = ("*.py", "*.md", "*.yaml", "*.toml", "*.sql", "*.sh", "Makefile", "Dockerfile")
# A file of another project, and names in tests of the pages.
_FOREIGN = re.compile(r"docs/(specification|missing|(guides/)?[ab])\.md|docs/guides/TOPIC\.md")


def _list_tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


@cache
def _anchors(path: Path) -> frozenset[str]:
    document = render_document(
        path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)), lambda file: file
    )
    return frozenset({Anchors().make(document.title), *(heading.anchor for heading in document.headings)})


def _find_broken(path: Path) -> list[str]:
    text = _CODE.sub("", path.read_text(encoding="utf-8"))
    broken = []
    for url in [*_LINK.findall(text), *_SOURCE.findall(text)]:
        if re.match(r"[a-z]+:", url):
            continue
        target, _, anchor = url.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists():
            broken.append(f"{path.relative_to(ROOT)}: {url} does not exist")
        elif anchor and file.suffix == ".md" and anchor not in _anchors(file):
            broken.append(f"{path.relative_to(ROOT)}: {url}: the page has no heading with this anchor")
    return broken


def test_relative_links_and_anchors_of_all_markdown_files_resolve() -> None:
    files = _list_tracked("*.md")
    assert len(files) > 80
    broken = [one for path in files for one in _find_broken(path)]
    assert not broken, "\n".join(broken)


def test_links_have_words_and_no_names_of_files() -> None:
    named = re.compile(r"\[[\w./-]+\.md\]\(")
    found = [
        str(path.relative_to(ROOT)) for path in list_pages() if named.search(path.read_text(encoding="utf-8"))
    ]
    assert not found, found


def test_pages_that_code_mentions_exist() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {page}"
        for path in _list_tracked(*_TEXTS)
        for page in _MENTION.findall(path.read_text(encoding="utf-8"))
        if not _FOREIGN.fullmatch(page) and not (ROOT / page).is_file()
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("path", list_pages()[1:], ids=lambda path: str(path.relative_to(ROOT)))
def test_page_begins_with_its_purpose_for_the_reader(path: Path) -> None:
    document = render_document(
        path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)), lambda file: file
    )
    assert re.match(r"After reading (this|these) pages? you (can|know)\b", document.summary), document.summary


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 700
