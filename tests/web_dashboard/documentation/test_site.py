"""The pages of the documentation: each file of `docs/` is one, the navigation reaches all, and links stay inside."""

import json
import re
from pathlib import Path

import pytest

from control_api.reference.load_document import load_document
from control_api.reference.operation_pages import list_operation_pages
from web_dashboard.documentation.files import address_of, list_page_files
from web_dashboard.documentation.site import Site, open_site

_SITE = open_site(list_operation_pages())
_ADDRESSES = ["", "decisions", *_SITE.files, *_SITE.written]
# Redirects to other parts, which are not pages of the documentation.
_ELSEWHERE = ("/api/docs", "/docs/assets/", "/docs/images/", "/icon.svg")


def _read(address: str) -> str:
    page = _SITE.read_page(address)
    assert page is not None, address
    return page.decode()


def test_the_navigation_has_every_page_once() -> None:
    listed = [entry.address for _, entries in _SITE.list_sections() for entry in entries]
    assert len(set(listed)) == len(listed)
    pages = {one for one in (*_SITE.files, *_SITE.written) if not one.startswith("decisions/")}
    assert pages - set(listed) == set(), "add the page to web_dashboard/documentation/navigation.py"


def test_a_page_that_does_not_exist_yet_is_left_out(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# First\n\nText with [a link](quick-start.md).\n")
    site = Site(tmp_path, list_page_files(tmp_path))
    assert [[one.address for one in entries] for _, entries in site.list_sections() if entries] == [
        ["index"],
        ["decisions"],
    ]
    page = site.read_page("")
    assert page is not None and b"Text with a link." in page
    assert site.read_page("quick-start") is None


def test_links_between_pages_lead_to_pages() -> None:
    broken = [
        f"{address}: {url}"
        for address in _ADDRESSES
        for url in re.findall(r'(?:href|src)="(/[^"]*)"', _read(address))
        if not url.startswith(_ELSEWHERE) and url != "/"
        if _SITE.read_page(url.partition("#")[0].removeprefix("/docs").removeprefix("/")) is None
    ]
    assert not broken


def test_pages_contain_nothing_that_their_policy_forbids() -> None:
    for address in _ADDRESSES:
        html = _read(address)
        assert not re.findall(r"<[^>]+\sstyle=|<style|<script(?! src=\"/docs/assets/)|\son\w+=\"", html), (
            address
        )
        assert not re.findall(r'<(?:img|script|link)[^>]*(?:src|href)="(?!/)', html), address


def test_the_search_finds_every_page_but_decisions() -> None:
    index = json.loads(_SITE.write_search_index())
    assert {address for address, _, _ in index} == {
        one for one in (*_SITE.files, *_SITE.written) if not one.startswith("decisions/")
    }
    texts = {address: " ".join(text for *_, text in passages) for address, _, passages in index}
    assert "exactly once" in texts["concepts/events-and-receipts"]
    assert all(title for _, title, _ in index)


@pytest.mark.parametrize(
    "address", ["../README", "..", "/etc/passwd", "docs/index", "guides/../index", "index.md", "assets", "\0"]
)
def test_other_addresses_are_no_pages(address: str) -> None:
    assert _SITE.read_page(address) is None


def test_each_operation_of_the_api_is_on_the_page_of_its_tags() -> None:
    pages = {address: write() for address, (_, write) in _SITE.written.items()}
    for path, item in load_document()["paths"].items():
        for method, operation in item.items():
            for tag in operation["tags"] if isinstance(operation, dict) else ():
                text = pages[f"reference/http/{tag.lower()}"]
                assert f"`{method.upper()} /api{path}`" in text
                assert f"## {operation['summary']}\n" in text


def test_the_page_of_an_operation_has_its_parts() -> None:
    text = _SITE.written["reference/http/deploy"][1]()
    part = text[text.index("## Start a deployment") :]
    part = part[: part.index("\n## ")]
    assert "scope `deploy:write`" in part
    assert "| `ref` | string or null | A branch, tag or commit to deploy instead" in part
    assert 'curl -sS -X POST "$BASE/api/v1/environments/$ENVIRONMENT/deploy"' in part
    assert '"status": "queued"' in part and "| 409 | " in part


def test_addresses_of_files() -> None:
    files = {
        "docs/index.md": "index",
        "docs/guides/a.md": "guides/a",
        "README.md": "index",
        "ARCHITECTURE.md": "architecture",
    }
    assert {file: address_of(file) for file in files} == files
