"""The pages of the documentation by their addresses, and the index of their search."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template

from web_dashboard.documentation.files import (
    address_of,
    find_root,
    list_images,
    list_page_files,
    read_text_asset,
)
from web_dashboard.documentation.markdown import Document, render_document, split_passages
from web_dashboard.documentation.navigation import DECISIONS, HOME, SECTIONS

PREFIX = "/docs"
"""Where the pages are served."""
_LONGEST_SUMMARY = 200
_DECISIONS_TEXT = (
    "# Decisions\n\nAfter reading these pages you know why Pharos is built as it is: each page has one question, "
    "measurements and rejected alternatives.\n\n"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the navigation."""

    address: str
    title: str


@dataclass(frozen=True, slots=True)
class Site:
    """All pages of a folder. Nothing is rendered before it is asked for.

    `written` are pages without a file: their titles, and functions that return their Markdown.
    """

    root: Path
    files: Mapping[str, Path]
    written: Mapping[str, tuple[str, Callable[[], str]]] = field(default_factory=dict)

    def read_page(self, address: str) -> bytes | None:
        """Return the page at an address (`guides/tracker`, '' for the first one) as HTML; None if there is none."""
        address = address or HOME
        if not self._has(address):
            return None
        document = self._render(address)
        return _fill(document, address, self.list_sections(), self._neighbours(address))

    def read_missing_page(self) -> bytes:
        """Return the page that says that an address has no page."""
        text = (
            "# No such page\n\nThe documentation has no page at this address. Search for a word, or start at the "
            "[first page](index.md).\n"
        )
        document = render_document(text, "docs/missing.md", self._find_link)
        return _fill(document, "", self.list_sections(), (None, None))

    def list_sections(self) -> list[tuple[str, list[Entry]]]:
        """Return the titles of the sections with their pages; pages without a file are left out."""
        return [
            (section.title, [self._entry(one) for one in section.pages if self._has(one)])
            for section in SECTIONS
        ]

    def write_search_index(self) -> bytes:
        """Return the index of the search as JSON: pages with their passages, `[address, title, [[anchor, heading,
        text], …]]`. Decisions are left out."""
        pages = []
        for address in (*self.files, *self.written):
            if address.startswith(f"{DECISIONS}/"):
                continue
            is_written = address in self.written
            text = (
                self.written[address][1]() if is_written else self.files[address].read_text(encoding="utf-8")
            )
            passages = [
                [one.anchor, one.heading, one.text] for one in split_passages(text, prose_only=is_written)
            ]
            pages.append([address, self._entry(address).title, passages])
        return json.dumps(pages, ensure_ascii=False, separators=(",", ":")).encode()

    def _render(self, address: str) -> Document:
        if address == DECISIONS:
            listed = [path for one, path in self.files.items() if one.startswith(f"{DECISIONS}/")]
            links = "".join(f"- [{_read_title(path)}]({path.name})\n" for path in listed)
            return render_document(_DECISIONS_TEXT + links, f"{DECISIONS}/index.md", self._find_link)
        if address in self.written:
            return render_document(self.written[address][1](), f"docs/{address}.md", self._find_link)
        path = self.files[address]
        file = str(path.relative_to(self.root))
        return render_document(path.read_text(encoding="utf-8"), file, self._find_link)

    def _find_link(self, file: str) -> str | None:
        if file.startswith("docs/images/"):
            return f"{PREFIX}/images/{Path(file).name}" if Path(file).name in list_images() else None
        address = address_of(file)
        if address == HOME:
            return PREFIX
        return f"{PREFIX}/{address}" if self._has(address) else None

    def _has(self, address: str) -> bool:
        return address == DECISIONS or address in self.files or address in self.written

    def _entry(self, address: str) -> Entry:
        if address in self.written:
            return Entry(address, self.written[address][0])
        return Entry(address, "Decisions" if address == DECISIONS else _read_title(self.files[address]))

    def _neighbours(self, address: str) -> tuple[Entry | None, Entry | None]:
        entries = [entry for _, entries in self.list_sections() for entry in entries]
        at = next((at for at, entry in enumerate(entries) if entry.address == address), None)
        if at is None:
            return None, None
        return (entries[at - 1] if at else None), (entries[at + 1] if at + 1 < len(entries) else None)


def open_site(written: Mapping[str, tuple[str, Callable[[], str]]]) -> Site:
    """Return the documentation of this installation, with these pages that have no file."""
    root = find_root()
    return Site(root, list_page_files(root), written)


@lru_cache(maxsize=512)
def _read_title(path: Path) -> str:
    with open(path, encoding="utf-8") as lines:
        return next((line[2:].strip().replace("`", "") for line in lines if line.startswith("# ")), path.stem)


def _fill(
    document: Document,
    address: str,
    sections: Sequence[tuple[str, list[Entry]]],
    neighbours: tuple[Entry | None, Entry | None],
) -> bytes:
    before, after = neighbours
    page = _template().substitute(
        title=escape(document.title),
        summary=escape(document.summary[:_LONGEST_SUMMARY]),
        navigation="".join(_section(title, entries, address) for title, entries in sections if entries),
        content=document.html,
        headings=_headings(document),
        before=_neighbour(before, "before", "Previous"),
        after=_neighbour(after, "after", "Next"),
    )
    return page.encode()


@lru_cache
def _template() -> Template:
    return Template(read_text_asset("page.html"))


def _section(title: str, entries: Sequence[Entry], current: str) -> str:
    links = "".join(
        f'<li><a href="{_url(entry)}"{" aria-current=page" if entry.address == current else ""}>'
        f"{escape(entry.title)}</a></li>"
        for entry in entries
    )
    return f"<section><h2>{escape(title)}</h2><ul>{links}</ul></section>"


def _headings(document: Document) -> str:
    links = "".join(
        f'<li class="level-{one.level}"><a href="#{one.anchor}">{escape(one.text)}</a></li>'
        for one in document.headings
        if one.level <= 3
    )
    return (
        f'<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>{links}</ul></nav>'
        if links
        else ""
    )


def _neighbour(entry: Entry | None, name: str, label: str) -> str:
    if entry is None:
        return ""
    return f'<a class="{name}" href="{_url(entry)}"><span>{label}</span>{escape(entry.title)}</a>'


def _url(entry: Entry) -> str:
    return PREFIX if entry.address == HOME else f"{PREFIX}/{entry.address}"
