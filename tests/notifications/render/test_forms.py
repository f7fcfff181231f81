"""The text and the HTML of messages."""

import re
from html.parser import HTMLParser

import pytest

from notifications.message import Message
from notifications.render.html import render_html
from notifications.render.text import render_text
from notifications.render.view import keep_url, view_message
from tests.notifications.sample_messages import (
    NASTY,
    make_incident,
    make_largest_message,
    make_message,
    make_resolved,
    make_test_message,
)

_TEN = make_message(*[make_incident(id=f"inc_{number}") for number in range(10)], firing=100_000, more=99_990)
_MESSAGES = {
    "one": make_message(),
    "ten": _TEN,
    "resolved": make_resolved(),
    "reminder": make_message(reason="reminder", created_at="2026-11-27T05:00:00Z"),
    "test": make_test_message(),
    "nothing": make_message(
        make_incident(details=[], figures=[], labels={}, deployment=None, command=None, url=None),
        project=None,
        environment=None,
        url=None,
        acknowledge_url=None,
        silence_url=None,
    ),
    "largest": make_largest_message(),
    "nasty": make_message(make_incident(title=NASTY, details=[NASTY], labels={NASTY: NASTY}), title=NASTY),
}

_ONE = """\
CRITICAL: Heartbeat nightly-backup is down

Account:     Acme
Project:     shop
Environment: production

Since 26 Nov 2026, 03:00 UTC, for 31 s
The last run reported the exit code 1.
Missed runs:     2 (threshold 1)
Last deployment: #412 of 8f290fbf9d0b “use zstd”, 18 min 50 s earlier
Incident:        inc_01KAZ7Q0
Look closer:
  pharos heartbeat show 12

Open:
  LINK
Acknowledge:
  LINK#acknowledge
Silence:
  LINK#silence

--\x20
Pharos, message msg_01KAZ7QF of grp_01KAZ7QG
"""


def test_text_has_subject_place_time_and_advice() -> None:
    message = _MESSAGES["one"]
    assert message.url is not None
    assert render_text(message) == _ONE.replace("LINK", message.url)


@pytest.mark.parametrize("name", _MESSAGES)
def test_lines_of_text_have_at_most_80_characters(name: str) -> None:
    for line in render_text(_MESSAGES[name]).split("\n"):
        words = line.split()
        is_whole = len(words) == 1 or words[:1] == ["pharos"]
        assert len(line) <= 80 or is_whole, line


@pytest.mark.parametrize("name", _MESSAGES)
def test_forms_have_no_control_characters(name: str) -> None:
    for form in (render_text(_MESSAGES[name]), render_html(_MESSAGES[name])):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", form)


_TAGS = {"html", "head", "meta", "title", "style", "body", "div", "table", "tr", "td", "span", "h1", "b", "a"}


class _Page(HTMLParser):
    """Collects tags, links and the text of a page, and checks that tags are closed in order."""

    _VOID = frozenset({"meta"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        names = {name for name, _ in attrs}
        assert not names & {"src", "srcset", "background", "onclick", "onload", "onerror"}
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", _MESSAGES)
def test_html_is_well_formed_and_loads_nothing(name: str) -> None:
    html = render_html(_MESSAGES[name])
    page = _Page(html)
    assert page.open == []
    assert page.tags <= _TAGS
    assert all(link.startswith("https://pharos.example/") for link in page.links)
    assert "url(" not in html
    assert "@import" not in html


def test_both_forms_have_everything_of_a_message() -> None:
    for name in ("one", "ten", "resolved", "reminder"):
        message = _MESSAGES[name]
        for form in (" ".join(render_text(message).split()), _Page(render_html(message)).text):
            for incident in message.incidents:
                assert incident.id in form
            for part in (
                "Heartbeat nightly-backup is down",
                "shop",
                "production",
                "2 (threshold 1)",
                "18 min 50 s earlier",
                "pharos heartbeat show 12",
                message.id,
                message.group_id,
            ):
                assert part in form, (name, part)


def _list_links(message: Message) -> list[str]:
    return [link.text for link in view_message(message).links]


def test_message_has_only_applicable_links() -> None:
    assert _list_links(make_message()) == ["Open", "Acknowledge", "Silence"]
    assert _list_links(make_resolved()) == ["Open"]
    assert _list_links(make_message(make_incident(state="info"))) == ["Open", "Silence"]
    assert _list_links(make_test_message()) == ["Open"]
    assert _list_links(_MESSAGES["nothing"]) == []


def test_words_about_the_message() -> None:
    cases = {
        "one": ("Critical", []),
        "ten": ("Critical", ["100,000 open."]),
        "resolved": ("Resolved", []),
        "reminder": ("Reminder", ["Still open, and nobody has acknowledged it."]),
        "test": ("Test", ["This is a test of the channel. Nothing is wrong."]),
    }
    for name, (word, notes) in cases.items():
        view = view_message(_MESSAGES[name])
        assert (view.word, list(view.notes)) == (word, notes)
    assert view_message(_TEN).more == "… and 99,990 more"
    assert "and 99,990 more" in render_text(_TEN)
    assert "and 99,990 more" in render_html(_TEN)
    assert (
        view_message(make_resolved()).incidents[0].since
        == "From 26 Nov 2026, 03:00 to 05:10 UTC (2 h 10 min)"
    )


def test_labels_are_shown_unless_the_title_names_them() -> None:
    incident = make_incident(
        title="The error rate of checkout is 7%",
        labels={"project": "shop", "environment": "staging", "service": "checkout", "region": "eu"},
        figures=[],
        deployment=None,
    )
    assert list(view_message(make_message(incident)).incidents[0].facts) == [
        ("Environment", "staging"),
        ("Region", "eu"),
    ]


def test_subject_contains_the_place_once() -> None:
    assert view_message(make_message(title="x")).subject == "x (shop/production)"
    assert view_message(make_message(title="x in shop/production")).subject == "x in shop/production"
    assert view_message(make_message(title="x", project=None, environment=None)).subject == "x"


def test_other_links_are_dropped() -> None:
    assert keep_url("https://pharos.example/i?a=1&b=%20#x") is not None
    for url in (
        None,
        "",
        "javascript:alert(1)",
        "//x",
        "https://x/ y",
        'https://x/"',
        "https://x/<",
        "https://\u00e4/",
    ):
        assert keep_url(url) is None
    assert keep_url("https://x/" + "a" * 1000) is None
