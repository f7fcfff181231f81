"""The views of the dashboard that are photographed: each page, the tabs of pages, and the dialogs that buttons open."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.dashboard_pages import list_patterns

_TABS = {
    "/deploy/:project": ("previews", "repository", "deliveries", "members", "workflow", "settings"),
    "/deploy/:project/:environment": ("releases", "output", "variables", "settings", "keys"),
    "/analytics/:site/settings": ("goals", "tracker", "sharing"),
    "/jobs/heartbeats/:heartbeat": ("incidents", "keys"),
}
_OPENED = {
    "/": ("Go to …",),
    "/deploy": ("New project",),
    "/deploy/:project": ("Environment", "Deploy"),
    "/deploy/:project/:environment": ("Deploy", "Roll back"),
    "/deploy/:project/:environment?tab=variables": ("Set variables",),
    "/deploy/:project?tab=previews": ("Open a preview",),
    "/deploy/:project?tab=members": ("Add a member",),
    "/deployments/:build": ("Deploy again",),
    "/analytics": ("Add a site",),
    "/analytics/:site": ("Filter",),
    "/jobs/heartbeats": ("New heartbeat",),
    "/jobs/heartbeats/:heartbeat": ("Edit", "Remove"),
    "/jobs/queues": ("New queue",),
    "/notifications/channels": ("New channel",),
    "/notifications/rules": ("New rule",),
    "/notifications/thresholds": ("New threshold",),
    "/notifications/silences": ("New silence",),
    "/settings/people": ("Invite a person", "Sign-in link"),
    "/settings/tokens": ("Create a token",),
    "/settings/keys": ("Create an ingest key",),
    "/settings/storage": ("Change",),
}
_SHOWN_IN_DOCS = {
    "/": "overview",
    "/analytics/:site": "analytics",
    "/monitoring/:environment/traces/:trace": "trace",
}


@dataclass(frozen=True, slots=True)
class View:
    """A page, and the button to press before taking the picture."""

    pattern: str
    opened: str = ""
    is_public: bool = False

    @property
    def name(self) -> str:
        """The name of the view's pictures, such as `notifications-channels-new-channel`."""
        text = "".join(each if each.isalnum() else " " for each in f"{self.pattern} {self.opened}".lower())
        return "-".join(text.split()) or "overview"

    def fill(self, values: Mapping[str, Any]) -> str | None:
        """Return the address, or None if the value of a parameter is missing."""
        path, mark, query = self.pattern.partition("?")
        parts = path.split("/")
        if any(part.startswith(":") and part[1:] not in values for part in parts):
            return None
        filled = [str(values[part[1:]]) if part.startswith(":") else part for part in parts]
        return "/".join(filled) + mark + query


def list_views() -> list[View]:
    """Return all views, in the order of the pages."""
    views = []
    for pattern in list_patterns():
        addresses = [pattern.text, *(f"{pattern.text}?tab={tab}" for tab in _TABS.get(pattern.text, ()))]
        for address in addresses:
            views.append(View(address, is_public=pattern.is_public))
            views += [View(address, opened) for opened in _OPENED.get(address, ())]
    return views


def list_views_of_docs() -> dict[str, View]:
    """Return the views of `docs/images`, by the names of their files."""
    return {name: View(pattern) for pattern, name in _SHOWN_IN_DOCS.items()}
