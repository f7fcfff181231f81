"""The program that sends one message through Apprise: `python -m notifications.channels.apprise_process`.

It reads `{"url", "title", "body", "type"}` from its standard input, as arguments are visible to other users of the
machine, and ends with an `Exit` code. It imports nothing of Pharos and runs without its environment.
"""

import enum
import json
import logging
import resource
import sys

_MAX_MEMORY = 512 * 2**20
_MAX_INPUT = 200_000


class Exit(enum.IntEnum):
    """How the program ended."""

    SENT = 0
    NOT_SENT = 3
    UNUSABLE_URL = 4
    LOCAL_SERVICE = 5


_LOCAL_SCHEMAS = frozenset({"dbus", "gio", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
"""Services that act on this machine instead of sending anything."""


def main() -> Exit:
    """Send the message of the standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Lines of the log contain URLs with tokens.
    logging.disable(logging.CRITICAL)
    request = json.loads(sys.stdin.read(_MAX_INPUT))
    if request["url"].partition(":")[0].lower() in _LOCAL_SCHEMAS:
        return Exit.LOCAL_SERVICE
    # Imported here: they take half a second.
    import apprise
    import requests
    from apprise.manager_attachment import AttachmentManager

    # No plugin follows a redirect, whatever its URL asks for.
    requests.Session.get_redirect_target = lambda self, response: None  # type: ignore[method-assign, assignment]
    # Some URLs name a template, a file whose content is sent: it must not be one of this machine.
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
