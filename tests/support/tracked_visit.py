"""A visitor of the demo pages in a real browser, and what a collector has stored of the visit."""

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

# What an event is: its name, the page's name, and whatever else it says.
Said = tuple[str, str, dict[str, Any]]
_MEASURED = ("Engagement", "Web Vital")
# How far the clocks of a browser's pages may be from this process's.
_INACCURATE = timedelta(seconds=10)
# Each look at what is stored is a query.
_LOOK_SECONDS = 0.2


# Run before a page's scripts: `measured` has each value that the tracker was told with its name, in order.
MEASURED = """
{
  let tracker;
  window.measured = [];
  Object.defineProperty(window, "pharos", {
    get: () => tracker,
    set(made) {
      tracker = made;
      const { vital } = made;
      if (vital) made.vital = (said) => { vital(said); measured.push([said.name, said.value]) };
    },
  });
}
"""


def page(name: str, **rest: Any) -> Said:
    """A page view."""
    return ("pageview", name, rest)


@asynccontextmanager
async def chromium_or_skip(folder: Path) -> AsyncIterator[Chromium]:
    """The running browser; the tests that need it are skipped where it is not installed."""
    async with AsyncExitStack() as stack:
        with skip_if_missing():
            running = await stack.enter_async_context(running_chromium(folder))
        yield running


@dataclass
class Visit:
    """Somebody's tab, and a folder of pages that nobody else opens."""

    tab: Tab
    collector: WatchedPlatform
    pages: DemoPages
    folder: str
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def open(self, name: str) -> None:
        await self.tab.open(f"{self.pages.origin}/{self.folder}/{name}")

    async def open_and_leave(self, name: str) -> None:
        """Go there, and return at `DOMContentLoaded`: the page has run its scripts and may be left."""
        await self.tab.open(f"{self.pages.origin}/{self.folder}/{name}", until_event="DOMContentLoaded")

    async def click_to(self, selector: str, name: str) -> None:
        await self.tab.click(selector)
        await self.tab.wait_at(f"/{self.folder}/{name}")

    async def run(self, script: str) -> Any:
        return await self.tab.evaluate(f"{{ {script} }}")

    async def events(self, measured: bool = False) -> list[Said]:
        """What is stored of this visit: either what was done or what was measured."""
        said = []
        for event in await self.collector.events():
            if not event["path"].startswith(f"/{self.folder}/"):
                continue
            rest = {key: value for key, value in event.items() if value not in (None, "", {})}
            assert uuid.UUID(rest.pop("id")).version == 4
            occurred_at = datetime.fromisoformat(rest.pop("occurred_at"))
            assert self.begun - _INACCURATE < occurred_at < datetime.now(UTC) + _INACCURATE
            path = rest.pop("path").removeprefix(f"/{self.folder}/")
            properties = dict(rest.pop("properties", {}))
            kind = rest.pop("type")
            name = properties.pop("name") if kind == "event" else kind
            if (name in _MEASURED) == measured:
                said.append((name, path, {**rest, **properties}))
        return sorted(said, key=str)

    async def measured(self, name: str, count: int = 1) -> None:
        """Wait until so many measurements of this name have arrived."""

        async def enough() -> bool:
            return sum(said[0] == name for said in await self.events(measured=True)) >= count

        await wait_for_result(enough, pause_seconds=_LOOK_SECONDS)

    async def sent(self, *expected: Said, leave: bool = True, seconds: float = 60.0) -> None:
        """These events arrive and no others, also when the tab is hidden (which sends all that waits)."""
        if leave:
            await self.tab.hide()

        async def enough() -> bool:
            return len(await self.events()) >= len(expected)

        await wait_for_result(enough, seconds, _LOOK_SECONDS)
        # What is one too many has the time of a chunk to show itself.
        await asyncio.sleep(0.8)
        assert await self.events() == sorted(expected, key=str)


@asynccontextmanager
async def open_visit(browser: Chromium, collector: WatchedPlatform, pages: DemoPages) -> AsyncIterator[Visit]:
    """A visit from its first page to its end; whatever its pages' scripts threw fails it."""
    async with browser.visitor() as tab:
        yield Visit(tab, collector, pages, f"t{uuid.uuid4().hex[:8]}")
        assert tab.faults == []
