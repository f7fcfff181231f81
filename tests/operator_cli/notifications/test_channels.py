"""`pharos channels`: secrets never come from arguments, and a test is followed to its end."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from operator_cli.notifications import follow_test
from tests.operator_cli.notifications.conftest import Run
from tests.operator_cli.notifications.documents import AT, attempt, channel, notification
from tests.support.fake_api import Answer, FakeApi, page

_CHANNELS = "/api/v1/notification-channels"
_SECRET = "https://hooks.slack.com/services/T0/B0/secret"


def _data(document: Any, status: int = 200) -> Answer:
    return Answer(status, {"data": document})


def _bodies(server: FakeApi, method: str) -> list[Any]:
    return [request.body for request in server.requests if request.method == method]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_secret_comes_from_a_file_standard_input_or_a_prompt(
    run: Run, server: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.by_path[_CHANNELS] = _data({**channel(), "signing_secret": None}, 201)
    (tmp_path / "url").write_text(f"{_SECRET}\n")
    create = ("channels", "create", "slack", "ops")
    done = run(*create, "--url-file", "url")
    assert done.status == 0 and _SECRET not in done.out + done.err
    assert "`pharos channels test ops`" in done.out and "`pharos rules create NAME --channel ops`" in done.out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_SECRET.encode())))
    assert run(*create, "--url-file", "-", "-q").out == "chn_ops\n"
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: f" {_SECRET} ")
    # Flags of the output may stand before the type.
    assert json.loads(run("channels", "create", "--json", "slack", "ops").out)["id"] == "chn_ops"
    expected = {"name": "ops", "type": "slack", "settings": {}, "secrets": {"url": _SECRET}}
    assert _bodies(server, "POST") == [expected] * 3
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    done = run(*create)
    assert done.status == 1 and "--url-file - on standard input" in done.err
    # There is no option that takes the secret itself.
    assert run(*create, "--url", _SECRET).status == 2


def test_a_webhook_shows_its_new_signing_secret_once(run: Run, server: FakeApi) -> None:
    made = {**channel("hook", "webhook"), "signing_secret": "whsec_abc"}
    server.by_path[_CHANNELS] = _data(made, 201)
    create = ("channels", "create", "webhook", "hook", "--url", "https://shop.example/hook")
    assert "\nwhsec_abc\n" in run(*create).out
    assert run(*create, "-q").out == "whsec_abc\n"
    hours = ("--quiet-hours", "22:00-07:00", "--timezone", "Europe/Berlin", "--days", "sat,sunday")
    assert run(*create, *hours).status == 0
    assert _bodies(server, "POST")[-1] == {
        "name": "hook",
        "type": "webhook",
        "settings": {"url": "https://shop.example/hook"},
        "secrets": {},
        "quiet_hours": {
            "from": "22:00",
            "to": "07:00",
            "timezone": "Europe/Berlin",
            "days": ["saturday", "sunday"],
        },
    }
    for words, message in (
        (("channels", "create", "webhook", "hook"), "--url"),
        (("channels", "create", "slak", "hook"), "Did you mean 'slack'?"),
        ((*create, "--days", "mon"), "go with --quiet-hours"),
        ((*create, "--quiet-hours", "22-7"), "write 22:00-07:00"),
    ):
        done = run(*words)
        assert done.status == 2 and message in done.err, done


def test_channels_are_listed_shown_changed_and_removed(
    run: Run, server: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = channel(
        "hook", "webhook", failing_since=AT, last_error="HTTP 410", settings={"url": "https://x"}
    )
    server.by_path[_CHANNELS] = page([channel(), failing, channel("old", "email", enabled=False)])
    listed = run("channels").out
    assert "failing" in listed and "HTTP 410" in listed and "off" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert run("channel", "list", "-q").out == "chn_ops\nchn_hook\nchn_old\n"
    shown = run("channels", "show", "hook").out
    assert "https://x" in shown and "secrets      url" in shown
    done = run("channels", "show", "hok")
    assert done.status == 5 and "Did you mean 'hook'?" in done.err
    server.by_path[f"{_CHANNELS}/chn_ops"] = _data({**channel(), "rules": 2})
    assert run("channels", "set", "ops", "--enabled", "off", "--no-quiet-hours").status == 0
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: _SECRET)
    assert run("channels", "set", "ops", "--ask", "url").status == 0
    assert _bodies(server, "PATCH") == [
        {"enabled": False, "quiet_hours": None},
        {"secrets": {"url": _SECRET}},
    ]
    assert run("channels", "set", "ops").status == 2
    assert run("channels", "remove", "ops", "--yes").out == "Channel ops is removed, and from 2 rules.\n"


def test_a_test_is_followed_to_its_end(run: Run, server: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_test, "_POLL_SECONDS", 0.0)
    server.by_path[_CHANNELS] = page([channel()])
    server.by_path[f"{_CHANNELS}/chn_ops"] = _data(channel(enabled=False))
    server.by_path[f"{_CHANNELS}/chn_ops/test"] = _data({"channel": "chn_ops", "requested_at": AT}, 202)
    other = notification(2)
    written = notification(1, "pending", is_test=True)
    retried = [attempt("retry", "HTTP 503")]
    sent = {**notification(1, attempts=2), "deliveries": [attempt(), *retried], "is_test": True}
    failed = {
        **notification(1, "failed", last_error="HTTP 404", is_test=True),
        "deliveries": [attempt("failed", "HTTP 404")],
    }
    for final, status in ((sent, 0), (failed, 1)):
        server.answers.extend(
            [
                page([other]),
                page([other, written]),
                _data({**written, "deliveries": retried}),
                page([other, written]),
                _data(final),
            ]
        )
        done = run("channels", "test", "ops")
        assert done.status == status, done
        assert "Attempt 1 failed: HTTP 503\n" in done.err
        assert "The next attempt follows soon. Ctrl-C stops the waiting, not the test." in done.err
        assert not server.answers
        if final is sent:
            assert (
                "retry   120 ms  HTTP 503" in done.out and "The test was delivered to ops after" in done.out
            )
        else:
            assert "The test was not delivered: HTTP 404" in done.out
            assert "The channel is off now." in done.out
            assert "`pharos channels set ops --ask url --enabled on`" in done.out
    assert "since=2026-11-20T12%3A00%3A00Z" in server.requests[-3].path
    monkeypatch.setattr(follow_test, "_PATIENCE_SECONDS", 0.0)
    done = run("channels", "test", "ops")
    assert done.status == 1 and "the workers of the installation may not be running" in done.err
    assert "was started" in run("channels", "test", "ops", "--no-wait").out
