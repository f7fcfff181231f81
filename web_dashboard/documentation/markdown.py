"""Turns one Markdown file into the parts of a page."""

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from web_dashboard.documentation.headings import Anchors

_LEXERS = {"sh": "bash", "js": "javascript", "crontab": "text", "caddyfile": "text"}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_CODE_OR_TABLE = re.compile(r"^```.*?^```$|^\|[^\n]*$", re.MULTILINE | re.DOTALL)
_ALIGNED = re.compile(r'style="text-align:(left|right|center)"')


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading below the title: its level (2 to 6), anchor and text."""

    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """The text from one heading to the next, for the search. The first one has the anchor ''."""

    anchor: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A file as HTML. `title` is its first heading, `summary` the text of its first paragraph."""

    title: str
    summary: str
    html: str
    headings: Sequence[Heading]


def render_document(text: str, file: str, find_link: Callable[[str], str | None]) -> Document:
    """Return the parts of a page.

    `file` is the path of the file from the root of the repository. `find_link` returns the URL of a path from there, or
    None if no page shows it: the words of such a link stay, without a link.
    """
    parser = _parser()
    tokens = parser.parse(text)
    anchors = Anchors()
    headings: list[Heading] = []
    title = summary = ""
    for before, token in pairwise(tokens):
        if token.type != "inline":
            continue
        if before.type == "heading_open":
            words = _plain_text(token)
            before.attrSet("id", anchor := anchors.make(words))
            if before.tag == "h1":
                title = title or words
            else:
                headings.append(Heading(int(before.tag[1:]), anchor, words))
        elif before.type == "paragraph_open":
            summary = summary or _plain_text(token)
        _resolve_links(token, posixpath.dirname(file), find_link)
    html = _ALIGNED.sub(r'class="\1"', parser.renderer.render(tokens, parser.options, {}))
    return Document(title, summary, html, headings)


def split_passages(text: str, *, prose_only: bool = False) -> list[Passage]:
    """Return the text below each heading. `prose_only`: leave code and tables out."""
    anchors = Anchors()
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    if prose_only:
        text = _CODE_OR_TABLE.sub("", text)
    for before, token in pairwise(_parser().parse(text)):
        if token.type == "inline" and before.type == "heading_open":
            words = _plain_text(token)
            anchor = anchors.make(words)
            if before.tag != "h1":
                found.append((anchor, words, []))
        elif token.type == "inline":
            found[-1][2].append(_plain_text(token))
        elif token.type == "fence":
            found[-1][2].append(token.content)
    return [Passage(anchor, heading, " ".join(" ".join(texts).split())) for anchor, heading, texts in found]


@lru_cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}, renderer_cls=_Renderer)
    return parser.enable(["table", "strikethrough"])


class _Renderer(RendererHTML):
    """HTML with highlighted code, tables that scroll and links to headings. Styles are classes only: the policy of the
    pages allows no `style` attributes."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        language = tokens[idx].info.strip().split(" ")[0]
        return (
            f'<div class="code" data-language="{escape(language)}"><pre tabindex="0"><code>'
            f"{_highlight(tokens[idx].content, language)}</code></pre></div>\n"
        )

    def html_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[idx].content
        return "" if content.lstrip().startswith("<!--") else content

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="table" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        anchor = tokens[idx - 2].attrGet("id")
        label = escape(_plain_text(tokens[idx - 1]))
        link = f'<a class="anchor" href="#{anchor}" aria-label="Link to: {label}">#</a>'
        return f"{'' if tokens[idx].tag == 'h1' else link}</{tokens[idx].tag}>\n"


def _highlight(code: str, language: str) -> str:
    try:
        lexer = get_lexer_by_name(_LEXERS.get(language, language or "text"), stripnl=False)
    except ClassNotFound:
        return escape(code)
    html: str = highlight(code, lexer, _formatter())
    return html


@lru_cache
def _formatter() -> "HtmlFormatter[str]":
    return HtmlFormatter(nowrap=True)


def _plain_text(token: Token) -> str:
    children = token.children or ()
    return "".join(
        " "
        if child.type in ("softbreak", "hardbreak")
        else ""
        if child.type == "html_inline"
        else child.content
        for child in children
    )


def _resolve_links(inline: Token, folder: str, find_link: Callable[[str], str | None]) -> None:
    kept: list[Token] = []
    is_dropped: list[bool] = []
    for child in inline.children or ():
        if child.type == "link_open":
            url = _resolve(str(child.attrGet("href")), folder, find_link)
            is_dropped.append(url is None)
            if url is not None:
                child.attrSet("href", url)
        if child.type == "image":
            child.attrSet("src", _resolve(str(child.attrGet("src")), folder, find_link) or "")
            child.attrSet("loading", "lazy")
        if child.type == "link_close" and is_dropped.pop():
            continue
        if child.type == "link_open" and is_dropped[-1]:
            continue
        kept.append(child)
    inline.children = kept


def _resolve(url: str, folder: str, find_link: Callable[[str], str | None]) -> str | None:
    if _SCHEME.match(url) or url.startswith(("#", "/")):
        return url
    path, mark, anchor = url.partition("#")
    found = find_link(posixpath.normpath(posixpath.join(folder, path)))
    return None if found is None else f"{found}{mark}{anchor}"
