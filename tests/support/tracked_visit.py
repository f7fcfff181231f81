"""A visitor of the demo pages in a real browser, and the events that the platform has stored of the visit."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.chromium import Chromium, Tab, running_chromium
from tests.support.demo_pages import DemoPages
from tests.support.engines import skip_if_missing
from tests.support.waits import wait_for_result
from tests.support.watched_platform import WatchedPlatform

# The summary of an event: its name, the page's name, and the other members.
EventSummary = tuple[str, str, dict[str, Any]]
_MEASURED = ("Engagement", "Web Vital")
# The largest difference between the clocks of the browser's pages and of this process.
_CLOCK_SKEW = timedelta(seconds=10)
# Each poll is a query.
_POLL_SECONDS = 0.2


# Run before a page's scripts: `measured` gets name and value of each measurement that the tracker receives, in order.
MEASURED = """
{
  let tracker;
  window.measured = [];
  Object.defineProperty(window, "pharos", {
    get: () => tracker,
    set(made) {
      tracker = made;
      const { vital } = made;
      if (vital) made.vital = (sample) => { vital(sample); measured.push([sample.name, sample.value]) };
    },
  });
}
"""


def pageview(name: str, **rest: Any) -> EventSummary:
    """Return the summary of a page view."""
    return ("pageview", name, rest)


@asynccontextmanager
async def chromium_or_skip(folder: Path) -> AsyncIterator[Chromium]:
    """Yield a running browser; skip the test if Chromium is not installed."""
    async with AsyncExitStack() as stack:
        with skip_if_missing():
            running = await stack.enter_async_context(running_chromium(folder))
        yield running


@dataclass
class Visit:
    """A visitor's tab, and a folder of pages that no other visit uses."""

    tab: Tab
    collector: WatchedPlatform
    pages: DemoPages
    folder: str
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def open(self, name: str) -> None:
        await self.tab.open(f"{self.pages.origin}/{self.folder}/{name}")

    async def open_and_leave(self, name: str) -> None:
        """Open a page and return at `DOMContentLoaded`: its scripts have run, and the visitor may leave."""
        await self.tab.open(f"{self.pages.origin}/{self.folder}/{name}", until_event="DOMContentLoaded")

    async def click_to(self, selector: str, name: str) -> None:
        await self.tab.click(selector)
        await self.tab.wait_at(f"/{self.folder}/{name}")

    async def run(self, script: str) -> Any:
        return await self.tab.evaluate(f"{{ {script} }}")

    async def events(self, measured: bool = False) -> list[EventSummary]:
        """Return the stored events of this visit, either the visitor's events or the measurements."""
        found = []
        for event in await self.collector.events():
            if not event["path"].startswith(f"/{self.folder}/"):
                continue
            rest = {key: value for key, value in event.items() if value not in (None, "", {})}
            assert uuid.UUID(rest.pop("id")).version == 4
            occurred_at = datetime.fromisoformat(rest.pop("occurred_at"))
            assert self.begun - _CLOCK_SKEW < occurred_at < datetime.now(UTC) + _CLOCK_SKEW
            path = rest.pop("path").removeprefix(f"/{self.folder}/")
            properties = dict(rest.pop("properties", {}))
            kind = rest.pop("type")
            name = properties.pop("name") if kind == "event" else kind
            if (name in _MEASURED) == measured:
                found.append((name, path, {**rest, **properties}))
        return sorted(found, key=str)

    async def wait_measured(self, name: str, count: int = 1) -> None:
        """Wait until `count` measurements of this name are stored."""

        async def enough() -> bool:
            return sum(event[0] == name for event in await self.events(measured=True)) >= count

        await wait_for_result(enough, pause_seconds=_POLL_SECONDS)

    async def expect_events(self, *expected: EventSummary, leave: bool = True, seconds: float = 60.0) -> None:
        """Check that exactly these events are stored. `leave`: hide the tab first, which sends buffered events."""
        if leave:
            await self.tab.hide()

        async def enough() -> bool:
            return len(await self.events()) >= len(expected)

        await wait_for_result(enough, seconds, _POLL_SECONDS)
        # An unexpected event would be stored within the time of a chunk.
        await asyncio.sleep(0.8)
        assert await self.events() == sorted(expected, key=str)


@asynccontextmanager
async def open_visit(browser: Chromium, collector: WatchedPlatform, pages: DemoPages) -> AsyncIterator[Visit]:
    """Yield a visit of a new visitor. Fails if a script of its pages has thrown."""
    async with browser.visitor() as tab:
        yield Visit(tab, collector, pages, f"t{uuid.uuid4().hex[:8]}")
        assert tab.faults == []
