"""The views of the demo platform that tests check: each page, its tabs and dialogs, and the figures on them."""

from tests.support.dashboard_pages import list_patterns
from tests.support.figures.analytics import ANALYTICS
from tests.support.figures.deploy import DEPLOY
from tests.support.figures.expected import Shown
from tests.support.figures.jobs import JOBS
from tests.support.figures.monitoring import MONITORING
from tests.support.figures.notifications import NOTIFICATIONS
from tests.support.figures.overview import OVERVIEW
from tests.support.figures.settings import SETTINGS

FIGURES: dict[str, Shown] = {
    **OVERVIEW,
    **DEPLOY,
    **JOBS,
    **MONITORING,
    **NOTIFICATIONS,
    **SETTINGS,
    **ANALYTICS,
}
"""The figures from API responses that pages show, by the address of the page."""

DIALOGS: dict[str, tuple[str, ...]] = {
    "/": ("Go to",),
    "/deploy": ("New project",),
    "/deploy?tab=approvals": ("Reject", "Approve"),
    "/deploy/:project": ("Environment",),
    "/deploy/:project?tab=previews": ("Open a preview",),
    "/deploy/:project?tab=repository": ("Replace the webhook secret",),
    "/deploy/:project?tab=deliveries": ("css=td a[href*='delivery=']",),
    "/deploy/:project?tab=members": ("Add a member",),
    "/deploy/:project?tab=settings": ("Remove the project",),
    "/deploy/:project/:environment": (
        "css=.button.primary:has-text('Deploy')",
        "Roll back",
        "More actions > Promote",
        "More actions > Scale",
    ),
    "/deploy/:project/:environment?tab=variables": ("Set variables",),
    "/deploy/:project/:environment?tab=keys": ("Create a key",),
    "/jobs/heartbeats": ("New heartbeat",),
    "/jobs/heartbeats/:heartbeat": ("Edit", "Show output"),
    "/jobs/queues": ("New queue",),
    "/jobs/queues/:queue": ("Rename",),
    "/monitoring/:environment/logs": ("css=summary > Show what was logged around it",),
    "/notifications/rules": ("New rule",),
    "/notifications/thresholds": ("New threshold",),
    "/notifications/channels": ("New channel", "Send a test to", "css=td [aria-haspopup=menu] > Remove"),
    "/notifications/deliveries": ("css=td a[href*='message=']",),
    "/notifications/silences": ("New silence",),
    "/settings/people": ("Invite a person", "Sign-in link"),
    "/settings/tokens": ("Create a token",),
    "/settings/keys": ("Create an ingest key",),
    "/settings/storage": ("Change how long Events are kept",),
    "/analytics": ("Add a site",),
    "/analytics/:site": ("Filter", "Details", "Period: > Other days"),
    "/analytics/:site/settings?tab=goals": ("Create a goal",),
    "/analytics/:site/settings?tab=sharing": ("Create a link",),
}
"""Buttons and links that open a dialog, once for each kind of dialog."""

MENUS = (
    "/analytics/:site",
    "/deploy/:project/:environment",
    "/monitoring/:environment/services",
    "/notifications/channels",
    "/notifications/incidents",
    "/notifications/incidents/:incident",
    "/notifications/rules",
    "/notifications/thresholds",
)
"""Pages with menus, once for each kind of menu."""

# These addresses show the first page of their area.
_SAME_AS_OTHERS = ("/jobs", "/monitoring", "/monitoring/:environment", "/notifications")
_MORE_TABS = (
    "/deploy/:project?tab=repository",
    "/deploy/:project?tab=workflow",
    "/deploy/:project?tab=settings",
    "/deploy/:project/:environment?tab=output",
    "/deploy/:project/:environment?tab=settings",
    "/jobs/heartbeats/:heartbeat?tab=keys",
    "/jobs/queues/:queue?tab=keys",
    "/settings/opentelemetry?language=sentry",
    "/analytics/:site/settings?tab=tracker",
    "/analytics/:site/settings?tab=sharing",
)


def list_views() -> list[str]:
    """Return the addresses of all pages for people who are signed in, and of their tabs."""
    pages = (pattern.text for pattern in list_patterns() if not pattern.is_public)
    return sorted({*pages, *FIGURES, *DIALOGS, *_MORE_TABS}.difference(_SAME_AS_OTHERS))
