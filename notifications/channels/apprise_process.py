"""The program that sends one message through Apprise: `python -m notifications.channels.apprise_process`.

It reads `{"url", "title", "body", "type"}` from standard input, because other users of the machine can see arguments,
and exits with an `Exit` code. It imports nothing of Pharos and runs without its environment variables.
"""

import enum
import json
import logging
import resource
import sys

_MAX_MEMORY = 512 * 2**20
_MAX_INPUT = 200_000


class Exit(enum.IntEnum):
    """The exit codes of this program."""

    SENT = 0
    NOT_SENT = 3
    UNUSABLE_URL = 4
    LOCAL_SERVICE = 5


_LOCAL_SCHEMAS = frozenset({"dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
"""Apprise services that act on this machine instead of sending a message."""


def main() -> Exit:
    """Send the message that is read from standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Apprise writes URLs that contain tokens to its log.
    logging.disable(logging.CRITICAL)
    request = json.loads(sys.stdin.read(_MAX_INPUT))
    if request["url"].partition(":")[0].lower() in _LOCAL_SCHEMAS:
        return Exit.LOCAL_SERVICE
    # Import Apprise here, because the import takes half a second.
    import apprise
    import requests
    from apprise.manager_attachment import AttachmentManager

    # No Apprise service may follow a redirect, whatever the configured URL says.
    requests.Session.get_redirect_target = lambda self, response: None  # type: ignore[method-assign, assignment]
    # Some URLs name a template file whose content Apprise sends. Files of this machine must not be sent.
    AttachmentManager().remove("file")  # type: ignore[no-untyped-call]
    service = apprise.Apprise.instantiate(
        request["url"], asset=apprise.AppriseAsset(app_id="Pharos", app_url="", http_redirects=False)
    )
    if service is None:
        return Exit.UNUSABLE_URL
    sent = service.notify(title=request["title"], body=request["body"], notify_type=request["type"])
    return Exit.SENT if sent else Exit.NOT_SENT


if __name__ == "__main__":
    sys.exit(main())
