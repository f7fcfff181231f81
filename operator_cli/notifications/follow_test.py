"""Send a test incident to a channel, and follow its notification until it is sent or has finally failed."""

import argparse
import shlex
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from control_domain.notifications.channel_types import CHANNEL_TYPES
from operator_cli.api.client import Api
from operator_cli.api.names import Row
from operator_cli.durations import format_elapsed
from operator_cli.errors import FAILED, CommandFailed
from operator_cli.messages import print_result, qualify_commands
from operator_cli.notifications.find import CHANNELS

_POLL_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0
_EXPLAIN_SECONDS = 5.0
_OPERATORS_SETTING: Final = "PHAROS_"
_LISTED: Final = 50
_FINAL: Final = ("sent", "failed", "canceled")


def follow_test(arguments: argparse.Namespace, api: Api, channel: Row) -> int:
    """Print the result of the test and its attempts. Return exit status 0 if it was delivered, else 1."""
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
    reported, is_explained = 0, False
    notification: dict[str, Any] | None = None
    while (waited := time.monotonic() - began) < _PATIENCE_SECONDS:
        if (number := _find(api, channel, test)) is not None:
            notification = api.get("notifications", number)
            if notification["status"] in _FINAL:
                return notification
            # The newest first.
            attempts = notification["deliveries"][::-1]
            if len(attempts) > reported:
                for number, attempt in enumerate(attempts[reported:], reported + 1):
                    _report(f"Attempt {number} failed: {attempt['error']}")
                reported = len(attempts)
                if waited + _seconds_until(notification["next_attempt_at"]) > _PATIENCE_SECONDS:
                    break
                _report(
                    f"The next attempt{_write_next(notification)}. Ctrl-C stops the waiting, not the test."
                )
        if not reported and not is_explained and waited > _EXPLAIN_SECONDS:
            is_explained = True
            _explain(api, channel, notification)
        time.sleep(_POLL_SECONDS)
    if notification is None:
        raise CommandFailed(
            f"No notification was written within {_PATIENCE_SECONDS:.0f} s: the workers of the "
            "installation may not be running. `pharos notifications list` shows it once it is "
            "written."
        )
    count = notification["attempts"]
    raise CommandFailed(
        f"The test is not delivered yet, after {count} attempt{'' if count == 1 else 's'}. The next "
        f"attempt{_write_next(notification)}. "
        f"`pharos notifications show {notification['id']}` shows its progress."
    )


def _seconds_until(time_: str | None) -> float:
    if time_ is None:
        return 0.0
    return (datetime.fromisoformat(time_) - datetime.now(UTC)).total_seconds()


def _write_next(notification: Mapping[str, Any]) -> str:
    at = notification["next_attempt_at"]
    return " follows soon" if at is None else f" is at {at[11:19]} UTC"


def _explain(api: Api, channel: Row, notification: Mapping[str, Any] | None) -> None:
    """Print the earlier message for which the test waits: messages to one channel are sent in order."""
    pending = api.get_all(
        "notifications", query={"channel": channel["id"], "status": "pending"}, limit=_LISTED
    )
    earlier = [row for row in pending if notification is None or row["number"] < notification["number"]]
    if not earlier:
        return
    first = earlier[-1]
    error = "" if first["last_error"] is None else f" It failed: {first['last_error']}"
    _report(
        f"The test waits for an earlier message ({first['id']}), whose next attempt{_write_next(first)}.{error}"
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
            f"A test of {channel['name']} was started. `pharos notifications list` shows its progress."
        )
    )


def _show(api: Api, notification: dict[str, Any], channel: Row, began: float) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.notifications.notification_tables import print_attempts

    print_attempts(notification["deliveries"])
    elapsed = format_elapsed(time.monotonic() - began)
    if notification["status"] == "sent":
        print(f"The test was delivered to {channel['name']} after {elapsed}.")
        return
    error = str(notification["last_error"])
    print(f"The test was not delivered: {error}")
    # If the receiver is permanently gone, the channel is turned off.
    print(qualify_commands(_advise(channel, error, is_off=not api.get(CHANNELS, channel["id"])["enabled"])))


def _advise(channel: Row, error: str, *, is_off: bool) -> str:
    """Return the next step after a failed test: the command that changes the settings of the type."""
    name = shlex.quote(channel["name"])
    again = f"Then test again: `pharos channels test {name}`."
    state = "The channel is off now. " if is_off else ""
    if _OPERATORS_SETTING in error:
        enable = f" `pharos channels set {name} --enabled on` turns the channel on." if is_off else ""
        return (
            f"{state}Only the operator of the installation can change that, with a restart.{enable}\n{again}"
        )
    known = CHANNEL_TYPES.get(channel["type"])
    options = [
        f"--ask {field.name}" if field.is_secret else f"--{field.name.replace('_', '-')} VALUE"
        for field in (known.list_fields() if known is not None else ())
        if field.is_required and field.name != "signing_secret"
    ]
    command = " ".join(["pharos channels set", name, *options, *(["--enabled on"] if is_off else [])])
    return f"{state}If a setting is wrong:\n`{command}`.\n{again}"
