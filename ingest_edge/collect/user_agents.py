"""Recognize bots, browsers, operating systems and devices by their User-Agent, which is not stored."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ingest_edge.collect.events import Client

_MAX_LENGTH = 1024
_TABLET = re.compile(r"iPad|Tablet|PlayBook|Silk/|Kindle|Android(?!.*Mobile)")
_MOBILE = re.compile(r"Mobi|iPhone|iPod|Windows Phone|BlackBerry|Opera Mini")
# The parser's names, mapped to the common names of browsers.
_BROWSERS = {
    "Mobile Safari": "Safari",
    "Mobile Safari UI/WKWebView": "Safari",
    "Chrome Mobile": "Chrome",
    "Chrome Mobile iOS": "Chrome",
    "Chrome Mobile WebView": "Chrome",
    "Firefox Mobile": "Firefox",
    "Firefox iOS": "Firefox",
    "Edge Mobile": "Edge",
    "Opera Mobile": "Opera",
}
_SYSTEMS = {"Mac OS X": "macOS", "Chrome OS": "ChromeOS"}


class UserAgents:
    """Parses User-Agents, with a cache.

    Create it on a thread: the patterns of a thousand browsers and bots take a quarter of a second to load.
    """

    def __init__(self) -> None:
        from crawleruseragents import CRAWLER_USER_AGENTS_DATA
        from ua_parser import Domain
        from ua_parser.loaders import load_builtins
        from ua_parser.regex import Resolver

        patterns = [str(crawler["pattern"]) for crawler in CRAWLER_USER_AGENTS_DATA]
        # Compile the patterns in groups: one alternation of all patterns is four times slower.
        self._bots = [re.compile("|".join(patterns[i : i + 25])) for i in range(0, len(patterns), 25)]
        self._resolve: Callable[[str, Any], Any] = Resolver(load_builtins())
        self._domains = Domain.USER_AGENT | Domain.OS
        self._parse_cached = lru_cache(16_384)(self._parse)

    def parse(self, user_agent: str) -> Client | None:
        """Return the client; None for a bot and for an empty User-Agent."""
        # Truncate the User-Agent, because anybody may send 30 KB and fill the cache.
        return self._parse_cached(user_agent[:_MAX_LENGTH])

    def _parse(self, text: str) -> Client | None:
        if not text.strip() or any(bots.search(text) for bots in self._bots):
            return None
        result = self._resolve(text, self._domains)
        browser = result.user_agent.family if result.user_agent else ""
        system = result.os.family if result.os else ""
        return Client(
            _device(text),
            _known_family(_BROWSERS.get(browser, browser)),
            _known_family(_SYSTEMS.get(system, system)),
        )


@lru_cache(1)
def load_user_agents() -> UserAgents:
    """Return the parser that the process shares."""
    return UserAgents()


def _known_family(family: str) -> str:
    return "" if family == "Other" else family


def _device(user_agent: str) -> str:
    if _TABLET.search(user_agent):
        return "Tablet"
    return "Mobile" if _MOBILE.search(user_agent) else "Desktop"
