"""The pages of the dashboard on a demo platform: each has no fault, is accessible, and fits on a phone."""

import json
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from playwright.async_api import Browser
from playwright.async_api import TimeoutError as PlaywrightTimeout

from tests.support.dashboard_browser import Person, running_browser, visitor
from tests.support.dashboard_figures import FIGURES, Figures, find_wrong_figures
from tests.support.dashboard_pages import DemoObjects, Pattern, list_patterns
from tests.support.dashboard_walk import (
    apply_configuration,
    create_heartbeat,
    filter_report,
    follow_exception,
    sign_in_by_printed_link,
    watch_heartbeat_go_down,
    watch_in_ten_tabs,
)
from tests.support.engines import skip_if_missing
from tests.support.hostile_markup import MARK, send_hostile_markup
from tests.support.platform_process import PlatformProcess

_DAYS = "7"
_LOAD_SECONDS = 300.0
_CONFIGURATION = ("/configuration/:project/applications/", "/configuration/:project/reviews/")
PATTERNS = {pattern.text: pattern for pattern in list_patterns()}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """One demo for all pages."""
    program = [sys.executable, "-m", "tests.support.short_demo", _DAYS, "up"]
    running = PlatformProcess(tmp_path_factory.mktemp("pages") / "data", command=program)
    running.start("--demo")
    ledger = running.data / "demo.json"
    deadline = time.monotonic() + _LOAD_SECONDS
    while not ledger.exists() or "complete" not in json.loads(ledger.read_text()):
        assert time.monotonic() < deadline, running.log.read_text()[-3000:]
        time.sleep(0.5)
    running.wait_until_consumed()
    yield running
    running.kill()


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all pages."""
    browsing = running_browser()
    with skip_if_missing():
        started = await browsing.__aenter__()
    try:
        yield started
    finally:
        await browsing.__aexit__(None, None, None)


@pytest.fixture(scope="module")
async def owner(platform: PlatformProcess, browser: Browser) -> AsyncIterator[Person]:
    """The owner of the account, signed in through the link that the command line prints."""
    printed = platform.run("sign-in-link", "--quiet", "owner@localhost")
    assert printed.returncode == 0, printed.stderr
    async with visitor(browser, f"http://127.0.0.1:{platform.port}") as person:
        await sign_in_by_printed_link(person, printed.stdout.strip())
        yield person


@pytest.fixture(scope="module")
def values(platform: PlatformProcess) -> dict[str, Any]:
    """A value for each parameter of an address."""
    return DemoObjects(platform).fill_in()


def _is_of_configuration(pattern: Pattern) -> bool:
    return pattern.text.startswith(_CONFIGURATION)


@pytest.mark.parametrize("text", [text for text, pattern in PATTERNS.items() if not pattern.is_public])
async def test_a_page_has_no_fault(
    owner: Person, platform: PlatformProcess, values: dict[str, Any], text: str
) -> None:
    pattern = PATTERNS[text]
    if _is_of_configuration(pattern):
        values = DemoObjects(platform).fill_in_configuration()
    await owner.check_page(pattern.fill(values), text.replace(":", "").strip("/") or "overview")
    assert await owner.page.inner_text("h1") != "Page not found"


@pytest.mark.parametrize("text", [text for text, pattern in PATTERNS.items() if pattern.is_public])
async def test_a_page_for_strangers_has_no_fault(
    platform: PlatformProcess, browser: Browser, text: str
) -> None:
    async with visitor(browser, f"http://127.0.0.1:{platform.port}") as stranger:
        # They are asked who they are, and a link without its secret is refused.
        stranger.watch.expected |= {401, 404}
        await stranger.check_page(PATTERNS[text].fill({}))


async def test_ten_tabs_stay_live(owner: Person, values: dict[str, Any]) -> None:
    await watch_in_ten_tabs(owner, values["environment"])
    assert owner.watch.take() == []


async def test_areas_are_reached_with_the_keyboard_alone(owner: Person) -> None:
    page = owner.page
    await owner.open("/")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.getAttribute('href')") == "#content"
    for letter, path in (("d", "/deploy"), ("m", "/monitoring"), ("j", "/jobs"), ("s", "/settings")):
        await _press_chord(owner, letter, path)
    await page.keyboard.press("Control+k")
    await page.keyboard.type("getting")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/start")
    await page.keyboard.press("Shift+?")
    await page.get_by_role("dialog", name="Keys").wait_for()
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog", name="Keys").wait_for(state="detached")
    assert owner.watch.take() == []


async def _press_chord(person: Person, letter: str, path: str) -> None:
    """Press G and the letter, and again as long as the area at `path` has not opened: on a busy machine the second key
    may come too late."""
    # The page may go on to its first part, such as /jobs/heartbeats.
    reached, deadline = re.compile(f"{path}(/|$)"), time.monotonic() + 60
    while True:
        await person.page.keyboard.press("g")
        await person.page.keyboard.press(letter)
        try:
            await person.page.wait_for_url(reached, timeout=2000, wait_until="commit")
        except PlaywrightTimeout:
            assert time.monotonic() < deadline, f"G {letter} does not open {path}"
        else:
            return


@pytest.mark.parametrize("figures", FIGURES, ids=[figures.page for figures in FIGURES])
async def test_figures_on_a_page_are_those_of_the_api(owner: Person, figures: Figures) -> None:
    assert await find_wrong_figures(owner, figures) == []


async def test_a_newcomer_filters_the_report(owner: Person, values: dict[str, Any]) -> None:
    await filter_report(owner, values["site"])
    assert owner.watch.take() == []


async def test_an_exception_leads_to_its_trace_and_its_log_lines(
    owner: Person, values: dict[str, Any]
) -> None:
    await follow_exception(owner, values["environment"])
    assert owner.watch.take() == []


async def test_a_new_heartbeat_goes_down_and_opens_an_incident(owner: Person) -> None:
    await create_heartbeat(owner, "lamp-oil")
    await watch_heartbeat_go_down(owner, "lamp-oil")
    assert owner.watch.take() == []


async def test_a_configuration_is_edited_planned_and_applied(
    owner: Person, platform: PlatformProcess
) -> None:
    await apply_configuration(owner, DemoObjects(platform).fill_in_configuration()["project"])
    assert owner.watch.take() == []


async def test_markup_of_strangers_shows_as_text(
    owner: Person, platform: PlatformProcess, values: dict[str, Any]
) -> None:
    hostile = send_hostile_markup(platform)
    platform.wait_until_consumed()
    objects = DemoObjects(platform)
    values = {**values, **objects.fill_in_hostile(hostile)}
    shown, faults = [], []
    for text, pattern in PATTERNS.items():
        if pattern.is_public or _is_of_configuration(pattern):
            continue
        await owner.open(pattern.fill(values))
        run = await owner.page.evaluate(
            "[window.pwned === undefined, document.querySelectorAll('img[src=x]').length]"
        )
        if run != [True, 0]:
            faults.append(f"{text}: {run}")
        if MARK in await owner.page.inner_text("body"):
            shown.append(text)
    assert not faults
    assert owner.watch.take() == []
    # The markup was there: pages of each area show it.
    assert len(shown) >= len(PATTERNS) // 4, shown
