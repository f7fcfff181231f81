"""Markdown becomes HTML without styles, scripts and broken links."""

import pytest

from web_dashboard.documentation.headings import Anchors
from web_dashboard.documentation.markdown import Heading, Passage, render_document, split_passages

_PAGES = {"docs/b.md": "/docs/b", "docs/images/a.png": "/docs/images/a.png"}


def _html(text: str) -> str:
    return render_document(text, "docs/a.md", _PAGES.get).html


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[b](b.md)", '<a href="/docs/b">b</a>'),
        ("[b](b.md#part)", '<a href="/docs/b#part">b</a>'),
        ("[b](../docs/b.md)", '<a href="/docs/b">b</a>'),
        ("[own](#part)", '<a href="#part">own</a>'),
        ("[api](/api/docs)", '<a href="/api/docs">api</a>'),
        ("[out](https://example.org/x)", '<a href="https://example.org/x">out</a>'),
        ("see [gone *now*](../Makefile).", "<p>see gone <em>now</em>.</p>"),
        ("[x](../../etc/passwd)", "<p>x</p>"),
        ("![A](images/a.png)", '<img src="/docs/images/a.png" alt="A" loading="lazy" />'),
        ("## One `two`", '<h2 id="one-two">One <code>two</code><a class="anchor" href="#one-two"'),
        ("<!-- not run: it is\nlong -->", ""),
        ("|a|\n|--:|\n|1|", '<td class="right">1</td>'),
        ("```sh\nls # x\n```", '<span class="c1"># x</span>'),
        ("```nonsense\n<b>\n```", "<code>&lt;b&gt;\n</code>"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
    ],
)
def test_markdown_becomes_html(text: str, part: str) -> None:
    html = _html(text)
    assert part in html
    assert "style=" not in html and "<!--" not in html


def test_a_document_has_title_summary_and_headings() -> None:
    document = render_document(
        "# The *title*\n\nFirst.\nMore.\n\n## A\n\n### B\n\n## A\n", "docs/a.md", _PAGES.get
    )
    assert (document.title, document.summary) == ("The title", "First. More.")
    assert document.headings == [Heading(2, "a", "A"), Heading(3, "b", "B"), Heading(2, "a-1", "A")]


def test_the_search_reads_the_text_below_each_heading() -> None:
    text = "# T\n\nOne `two`.\n\n## A\n\n|x|\n|-|\n|y|\n\n```sh\nls\n```\n\nZ.\n"
    assert split_passages(text) == [Passage("", "", "One two."), Passage("a", "A", "x y ls Z.")]
    assert split_passages(text, prose_only=True) == [Passage("", "", "One two."), Passage("a", "A", "Z.")]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Ping URLs", "ping-urls"),
        ("POST /v1/ingest (ingest key)", "post-v1ingest-ingest-key"),
        ("Which *one*, then?", "which-one-then"),
        ("snake_case stays", "snake_case-stays"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    anchors = Anchors()
    assert anchors.make(heading.replace("*", "")) == anchor
    assert anchors.make(heading.replace("*", "")) == f"{anchor}-1"
