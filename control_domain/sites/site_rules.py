"""Rules of sites and goals that the API and configuration documents share."""

from functools import cache
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from control_domain.slugs import MAX_NAME_LENGTH

MAX_DOMAINS = 50
MAX_EVENT_LENGTH = 255
MAX_PATH_LENGTH = 2048
# The tracker itself sends these events about time on page and page speed. They are not actions of visitors.
AUTOMATIC_EVENTS = ("Engagement", "Web Vital")


def make_default_name(origin: str) -> str:
    """Return the host of a registered origin, the default name of a site."""
    return (urlsplit(origin.replace("*.", "", 1)).hostname or "")[:MAX_NAME_LENGTH]


def is_timezone(text: str) -> bool:
    """Return True for the name of a time zone that days of a site can have."""
    return text in _timezones()


@cache
def _timezones() -> frozenset[str]:
    # `localtime` is the zone of this machine; the column store does not have it.
    return frozenset(available_timezones() - {"localtime"})


def is_path(text: str) -> bool:
    """Return True for the path of a page."""
    return text.startswith("/") and len(text) <= MAX_PATH_LENGTH and text.isprintable()
