"""The documentation in Chromium: no accessibility faults, pages fit a phone, and the search works."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from control_api.app import build_control_app
from tests.support.dashboard_browser import Person, Watch, running_browser, visitor
from tests.support.engines import skip_if_missing
from tests.support.serve_control import VARIABLE_KEYS, serving_control

_NOTHING = cast(Any, None)
_PAGES = ("", "/quick-start", "/concepts/events-and-receipts", "/reference/http/webhooks", "/nothing")


@pytest.fixture(scope="module")
async def reader() -> AsyncIterator[tuple[Person, list[str]]]:
    """A reader of the documentation, and the addresses that the browser has requested."""
    app = build_control_app(_NOTHING, None, b"a receipt key of the test suite, 32+", VARIABLE_KEYS)
    with skip_if_missing():
        async with (
            serving_control(app) as url,
            running_browser() as browser,
            visitor(browser, url, watch=Watch(expected={404})) as person,
        ):
            requested: list[str] = []
            person.page.on("request", lambda request: requested.append(request.url))
            yield person, requested


@pytest.mark.parametrize("path", _PAGES)
async def test_a_page_has_no_faults_in_light_in_dark_and_on_a_phone(
    reader: tuple[Person, list[str]], path: str
) -> None:
    person, requested = reader
    await person.open(f"/docs{path}")
    assert await person.find_faults() == []
    assert person.watch.take() == []
    assert [url for url in requested if not url.startswith((person.origin, "data:"))] == []


async def test_the_search_finds_a_passage_by_keyboard(reader: tuple[Person, list[str]]) -> None:
    person, _ = reader
    page = person.page
    await person.open("/docs")
    await page.keyboard.press("/")
    await page.keyboard.type("dead letter")
    await page.locator("#results [role=option]").first.wait_for()
    assert await person.run_axe(".search") == []
    await page.keyboard.press("ArrowDown")
    chosen = page.locator("#results a[aria-selected=true]")
    target = await chosen.get_attribute("href")
    assert target is not None
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{person.origin}{target}")
    assert "dead letter" in (await page.inner_text("article")).lower()


async def test_words_that_occur_nowhere_find_nothing(reader: tuple[Person, list[str]]) -> None:
    person, _ = reader
    await person.open("/docs")
    await person.page.fill("#search", "xyzzy plugh")
    await person.page.get_by_text("Nothing found").wait_for()


async def test_the_theme_is_that_of_the_dashboard(reader: tuple[Person, list[str]]) -> None:
    person, _ = reader
    await person.open("/docs")
    theme = "document.documentElement.dataset.theme ?? localStorage.getItem('pharos-theme')"
    seen = []
    for _press in range(3):
        await person.page.click(".theme")
        seen.append(await person.page.evaluate(theme))
    assert seen == ["light", "dark", None]
