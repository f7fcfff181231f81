"""Send a test incident to a channel, and follow its notification until it is sent or given up."""

import argparse
import shlex
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from operator_cli.api.client import Api
from operator_cli.api.names import Row
from operator_cli.durations import format_elapsed
from operator_cli.errors import FAILED, CommandFailed
from operator_cli.messages import print_result, qualify_commands
from operator_cli.notifications.find import CHANNELS

_POLL_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0
_LISTED: Final = 50
_FINAL: Final = ("sent", "failed", "canceled")


def follow_test(arguments: argparse.Namespace, api: Api, channel: Row) -> int:
    """Print how the test went, with its attempts. Return exit status 0 if it was delivered, else 1."""
    began = time.monotonic()
    test = api.post(CHANNELS, channel["id"], "test")
    if arguments.leaves_it:
        return print_result(arguments, test, lambda _: _show_begun(channel), quiet="channel")
    _report(f"Testing {channel['name']} ({channel['type']}) …")
    notification = _wait(api, channel, test, began)
    status = print_result(arguments, notification, lambda found: _show(api, found, channel, began))
    return status if notification["status"] == "sent" else FAILED


def _wait(api: Api, channel: Row, test: Mapping[str, Any], began: float) -> dict[str, Any]:
    """Return the notification of the test once it is final. Raises `CommandFailed` if that takes too long."""
    reported = 0
    notification: dict[str, Any] | None = None
    while time.monotonic() - began < _PATIENCE_SECONDS:
        if (number := _find(api, channel, test)) is not None:
            notification = api.get("notifications", number)
            if notification["status"] in _FINAL:
                return notification
            # The newest first.
            attempts = notification["deliveries"][::-1]
            for attempt in attempts[reported:]:
                _report(f"Attempt {reported + 1} failed: {attempt['error']} It is tried again.")
                reported += 1
        time.sleep(_POLL_SECONDS)
    if notification is None:
        raise CommandFailed(
            f"No notification was written within {_PATIENCE_SECONDS:.0f} s: the workers of the installation may not "
            "run. `pharos notifications list` shows it once it is there."
        )
    raise CommandFailed(
        f"The test is not delivered yet, after {notification['attempts']} attempts; Pharos goes on trying. "
        f"`pharos notifications show {notification['id']}` shows what becomes of it."
    )


def _find(api: Api, channel: Row, test: Mapping[str, Any]) -> Any:
    """Return the ID of the notification; None before it is written."""
    query = {"channel": channel["id"], "since": test["requested_at"]}
    tests = [row for row in api.get_all("notifications", query=query, limit=_LISTED) if row["is_test"]]
    # Another person may test the channel after this one.
    return tests[-1]["id"] if tests else None


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show_begun(channel: Row) -> None:
    print(
        qualify_commands(
            f"A test of {channel['name']} is on its way. `pharos notifications list` shows what becomes of it."
        )
    )


def _show(api: Api, notification: dict[str, Any], channel: Row, began: float) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.notification_tables import print_attempts

    print_attempts(notification["deliveries"])
    elapsed = format_elapsed(time.monotonic() - began)
    if notification["status"] == "sent":
        print(f"The test has arrived at {channel['name']} after {elapsed}.")
        return
    print(f"The test was not delivered: {notification['last_error']}")
    name = shlex.quote(channel["name"])
    # A receiver that is gone for good turns its channel off.
    is_off = not api.get(CHANNELS, channel["id"])["enabled"]
    enable = " --enabled on" if is_off else ""
    state = "The channel is off now. " if is_off else ""
    print(
        qualify_commands(
            f"{state}Fix it with `pharos channels set {name}{enable}`, then test again: `pharos channels test {name}`."
        )
    )
