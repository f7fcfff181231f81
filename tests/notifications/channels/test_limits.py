"""Payloads against the documented limits of each service, for ordinary messages and for the largest one."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from control_domain.notifications.channel_types import TelegramSettings
from notifications.channels import discord, ntfy, pagerduty, slack, teams, telegram
from notifications.channels.markup import count_utf16, cut, fit_lines
from notifications.message import Message
from tests.notifications.sample_messages import (
    make_incident,
    make_largest_message,
    make_message,
    make_resolved,
    make_test_message,
)

_MESSAGES = {
    "one": make_message(),
    "ten": make_message(*[make_incident(id=f"inc_{number}") for number in range(10)], more=99_990),
    "resolved": make_resolved(),
    "test": make_test_message(),
    "no links": make_message(make_incident(url=None), url=None, acknowledge_url=None, silence_url=None),
    "platform": make_message(project=None, environment=None),
    "largest": make_largest_message(),
    "largest emoji": make_largest_message("\U0001f4a5"),
    "largest ampersands": make_largest_message("&"),
    "largest asterisks": make_largest_message("*"),
    "largest quotes": make_largest_message('"\\'),
    "invisible": make_largest_message("\u202e\u0000"),
}
_FIRST_ID = {name: message.incidents[0].id for name, message in _MESSAGES.items()}
each_message = pytest.mark.parametrize("name", _MESSAGES)


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _list_texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _list_texts(member)


@each_message
def test_slack(name: str) -> None:
    payload = slack.build_payload(_MESSAGES[name])
    blocks = payload["blocks"]
    assert 0 < len(payload["text"]) <= 3000
    assert len(blocks) <= 50
    assert len(msgspec.json.encode(blocks).decode()) <= 13_200
    for block in blocks:
        texts = block["elements"] if block["type"] == "context" else [block["text"]]
        assert block["type"] in ("header", "section", "context")
        assert 1 <= len(texts) <= 10
        for text in texts:
            assert 1 <= len(text["text"]) <= (150 if block["type"] == "header" else 3000)
            assert set(text) == {"type", "text", "verbatim" if text["type"] == "mrkdwn" else "emoji"}
            if text["type"] == "mrkdwn":
                # Only links to Pharos itself are marked up.
                assert re.fullmatch(r"(<https://pharos\.example/[^<>|]+\|[^<>|]+>\s*)+…?", text["text"])
    # The fallback is `mrkdwn`, without mentions and links.
    assert "<" not in payload["text"]


@each_message
def test_discord(name: str) -> None:
    payload = discord.build_payload(_MESSAGES[name])
    assert payload["allowed_mentions"] == {"parse": []}
    (embed,) = payload["embeds"]
    fields = embed.get("fields", [])
    assert 1 <= count_utf16(embed["title"]) <= 256
    assert 1 <= count_utf16(embed["description"]) <= 4096
    assert len(fields) <= 25
    for field in fields:
        assert 1 <= count_utf16(field["name"]) <= 256
        assert 1 <= count_utf16(field["value"]) <= 1024
    texts = [embed["title"], embed["description"], *(text for field in fields for text in field.values())]
    assert sum(count_utf16(text) for text in texts) <= 6000
    for text in texts:
        without_links = re.sub(r"\[(?:[^\]\\]|\\.)*\]\(https://pharos\.example/[^()\s]*\)", "", text)
        without_escapes = re.sub(r"\\.", "", without_links)
        assert not re.search(r"[_~`|>#\[\]()<@]", without_escapes.replace("**", ""))


@each_message
def test_teams(name: str) -> None:
    payload = teams.build_payload(_MESSAGES[name])
    assert len(msgspec.json.encode(payload)) <= 28 * 1024 - 1000
    (attachment,) = payload["attachments"]
    card = attachment["content"]
    assert (payload["type"], card["type"], card["version"]) == ("message", "AdaptiveCard", "1.4")
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    blocks = [item for each in card["body"] for item in each.get("items", [each])]
    # Only runs of rich text, which interpret neither Markdown nor {{DATE()}}.
    assert {block["type"] for block in blocks} == {"RichTextBlock"}
    assert all(run["type"] == "TextRun" and run["text"] for block in blocks for run in block["inlines"])
    assert all(action["type"] == "Action.OpenUrl" for action in card.get("actions", []))


class _Tags(HTMLParser):
    """Checks that tags are those of Telegram, and closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.shown = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("b", "code", "a")
        if tag == "a":
            assert [name for name, _ in attrs] == ["href"]
            assert (attrs[0][1] or "").startswith("https://pharos.example/")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data


@each_message
def test_telegram(name: str) -> None:
    payload = telegram.build_payload(_MESSAGES[name], TelegramSettings(chat_id="-100"))
    tags = _Tags()
    tags.feed(payload["text"])
    tags.close()
    assert tags.open == []
    assert 1 <= count_utf16(tags.shown) <= 4096
    assert payload["parse_mode"] == "HTML"


@each_message
def test_ntfy(name: str) -> None:
    payload = ntfy.build_payload(_MESSAGES[name])
    assert len(payload["message"].encode()) <= 4096
    assert len(msgspec.json.encode({"topic": "x" * 64, **payload})) <= 8192
    assert len(payload.get("actions", [])) <= 3
    assert 1 <= payload["priority"] <= 5
    assert "\n" not in payload["title"]


@each_message
def test_pagerduty(name: str) -> None:
    event = pagerduty.build_event(_MESSAGES[name], "trigger")
    assert 1 <= len(event["payload"]["summary"]) <= 1024
    assert len(event["dedup_key"]) <= 255
    assert event["payload"]["severity"] in ("critical", "error", "warning", "info")
    assert len(msgspec.json.encode(event)) <= 512 * 1024


@pytest.mark.parametrize("name", ["one", "ten", "resolved", "largest"])
def test_each_form_names_the_incident_and_the_number_of_unlisted_ones(name: str) -> None:
    message = _MESSAGES[name]
    forms = _build_all(message)
    for form in forms.values():
        texts = "\n".join(_list_texts(form)).replace("\\", "")
        if name != "largest":
            assert message.incidents[0].id in texts
            assert "Nov 2026" in texts
            assert "(threshold 1)" in texts
        if message.more:
            assert f"and {message.more:,} more" in texts or name == "largest"


def _build_all(message: Message) -> dict[str, Any]:
    return {
        "slack": slack.build_payload(message),
        "discord": discord.build_payload(message),
        "teams": teams.build_payload(message),
        "telegram": telegram.build_payload(message, TelegramSettings(chat_id="-100")),
        "ntfy": ntfy.build_payload(message),
    }


def test_lines_are_kept_whole() -> None:
    lines = ["<b>a</b>", "<b>bb</b>", "<b>ccc</b>"]
    assert fit_lines(lines, 100) == "\n".join(lines)
    assert fit_lines(lines, 25) == "<b>a</b>\n<b>bb</b>\n…"
    assert fit_lines(lines, 5) == "…"


@pytest.mark.parametrize("limit", range(3, 12))
def test_cut_text_is_within_its_limit(limit: int) -> None:
    for text in ("abcdefghijkl", "\U0001f4a5" * 8, "ä" * 9, ""):
        for length in (len, count_utf16, lambda each: len(each.encode())):
            cut_text = cut(text, limit, length)
            assert length(cut_text) <= limit
            assert (cut_text == text) == (length(text) <= limit)
