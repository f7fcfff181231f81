"""What a User-Agent tells: a bot, or a browser on a system on a kind of device. Read here and kept nowhere else."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ingest_edge.collect.events import Client

_LONGEST = 1024
_TABLET = re.compile(r"iPad|Tablet|PlayBook|Silk/|Kindle|Android(?!.*Mobile)")
_MOBILE = re.compile(r"Mobi|iPhone|iPod|Windows Phone|BlackBerry|Opera Mini")
# As people call them; the parser tells apart what is the same to them.
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
    """Reads User-Agents; what was read is kept for those that come again, nearly all of them.

    Made on a thread: the patterns of a thousand browsers and bots take a quarter of a second to load.
    """

    def __init__(self) -> None:
        from crawleruseragents import CRAWLER_USER_AGENTS_DATA
        from ua_parser import Domain
        from ua_parser.loaders import load_builtins
        from ua_parser.regex import Resolver

        patterns = [str(one["pattern"]) for one in CRAWLER_USER_AGENTS_DATA]
        # In pieces: one alternation of all is four times slower.
        self._bots = [re.compile("|".join(patterns[i : i + 25])) for i in range(0, len(patterns), 25)]
        self._parse: Callable[[str, Any], Any] = Resolver(load_builtins())
        self._domains = Domain.USER_AGENT | Domain.OS
        self._read = lru_cache(16_384)(self._find)

    def read(self, user_agent: str) -> Client | None:
        """The client behind it; None for a bot, and for one that says nothing."""
        # What is kept is cut too: anybody may send User-Agents of 30 KB.
        return self._read(user_agent[:_LONGEST])

    def _find(self, text: str) -> Client | None:
        if not text.strip() or any(bots.search(text) for bots in self._bots):
            return None
        found = self._parse(text, self._domains)
        browser = found.user_agent.family if found.user_agent else ""
        system = found.os.family if found.os else ""
        return Client(
            _device(text), _named(_BROWSERS.get(browser, browser)), _named(_SYSTEMS.get(system, system))
        )


@lru_cache(1)
def load_user_agents() -> UserAgents:
    """The ones of the process."""
    return UserAgents()


def _named(family: str) -> str:
    return "" if family == "Other" else family


def _device(user_agent: str) -> str:
    if _TABLET.search(user_agent):
        return "Tablet"
    return "Mobile" if _MOBILE.search(user_agent) else "Desktop"
