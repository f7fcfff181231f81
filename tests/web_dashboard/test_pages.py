"""The demo, and the pages of the dashboard on it: each has no fault, is accessible, and fits on a phone."""

import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser
from playwright.async_api import TimeoutError as PlaywrightTimeout

from tests.support.checked_views import DIALOGS, FIGURES, MENUS, list_views
from tests.support.dashboard_browser import Person, running_browser, visitor
from tests.support.dashboard_pages import DemoObjects, fill_address, list_patterns
from tests.support.dashboard_walk import (
    apply_configuration,
    create_heartbeat,
    filter_report,
    follow_exception,
    follow_live_tail,
    sign_in_by_printed_link,
    watch_heartbeat_go_down,
    watch_in_ten_tabs,
)
from tests.support.demo_checks import check_first_report, check_second_start
from tests.support.demo_platform import running_demo, wait_until_noted
from tests.support.engines import skip_if_missing
from tests.support.figures.compare import Answers
from tests.support.hostile_markup import MARK, Hostile, send_hostile_markup
from tests.support.keyboard_walk import find_dialog_faults, find_menu_faults, find_unreachable
from tests.support.platform_process import PlatformProcess

_DAYS = 7
_LOAD_SECONDS = 300.0
_AREAS = (
    ("d", "/deploy"),
    ("m", "/monitoring"),
    ("n", "/notifications"),
    ("j", "/jobs"),
    ("s", "/settings"),
)
_RUN_MARKUP = "[window.pwned === undefined, document.querySelectorAll('img[src=x]').length]"
_MARKED: set[str] = set()
"""Views that showed markup from strangers as text."""
PATTERNS = {pattern.text: pattern for pattern in list_patterns()}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """One demo for all pages."""
    program = [sys.executable, "-m", "tests.support.short_demo", str(_DAYS)]
    # As people type it: git, which makes the commits, runs in another folder.
    data = Path(os.path.relpath(tmp_path_factory.mktemp("pages") / "data"))
    with running_demo(data, program) as running:
        wait_until_noted(running, "complete", _LOAD_SECONDS)
        yield running


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


@pytest.fixture(scope="module")
def hostile(platform: PlatformProcess) -> Hostile:
    """Objects with markup in their texts, which lists show from the beginning."""
    sent = send_hostile_markup(platform)
    platform.wait_until_consumed()
    return sent


@pytest.fixture(scope="module")
def answers(owner: Person) -> Answers:
    """The API responses to the pages of the owner."""
    return Answers(owner)


def test_the_first_report_shows_past_visits_and_live_clicks(platform: PlatformProcess) -> None:
    check_first_report(platform, _DAYS)


def test_a_second_start_does_not_repeat_past_visits(platform: PlatformProcess) -> None:
    check_second_start(platform)


@pytest.mark.parametrize("view", list_views())
async def test_a_page_has_no_fault(
    owner: Person,
    platform: PlatformProcess,
    answers: Answers,
    values: dict[str, Any],
    hostile: Hostile,
    view: str,
) -> None:
    """The page shows the figures of the API, is accessible in light and dark and by keyboard alone, and fits on a
    phone."""
    if view.startswith("/configuration/:"):
        values = DemoObjects(platform).fill_in_configuration()
    answers.clear()
    await owner.open(fill_address(view, values))
    assert await owner.page.inner_text("h1") != "Page not found"
    faults = await answers.find_wrong(FIGURES.get(view, {}))
    faults += await _find_run_markup(owner, view)
    faults += await owner.find_faults()
    faults += await find_unreachable(owner)
    if view in MENUS:
        faults += await find_menu_faults(owner)
    for way in DIALOGS.get(view, ()):
        faults += await find_dialog_faults(owner, way)
    faults += owner.watch.take()
    assert not faults, "\n".join(faults)


async def _find_run_markup(person: Person, view: str) -> list[str]:
    """Return the effects of markup from strangers in the page."""
    if MARK in await person.page.inner_text("body"):
        _MARKED.add(view)
    run = await person.page.evaluate(_RUN_MARKUP)
    return [] if run == [True, 0] else [f"markup is run: {run}"]


@pytest.mark.parametrize("text", [text for text, pattern in PATTERNS.items() if pattern.is_public])
async def test_a_page_for_strangers_has_no_fault(
    platform: PlatformProcess, browser: Browser, text: str
) -> None:
    async with visitor(browser, f"http://127.0.0.1:{platform.port}") as stranger:
        # These pages ask for a sign-in, and a link without its secret is refused.
        stranger.watch.expected |= {401, 404}
        await stranger.open(text)
        faults = await stranger.find_faults()
        assert [*faults, *stranger.watch.take()] == []


async def test_ten_tabs_stay_live(owner: Person, values: dict[str, Any]) -> None:
    await watch_in_ten_tabs(owner, values["environment"])
    assert owner.watch.take() == []


async def test_areas_are_reached_with_the_keyboard_alone(owner: Person) -> None:
    page = owner.page
    await owner.open("/")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.getAttribute('href')") == "#content"
    for letter, path in _AREAS:
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
    """Press G and the letter, and repeat until the area at `path` has opened: on a busy machine the second key may be
    too late."""
    # The page may continue to its first part, such as /jobs/heartbeats.
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


async def test_a_newcomer_filters_the_report(owner: Person, values: dict[str, Any]) -> None:
    await filter_report(owner, values["site"])
    assert owner.watch.take() == []


async def test_an_exception_leads_to_its_trace_and_its_log_lines(
    owner: Person, values: dict[str, Any]
) -> None:
    await follow_exception(owner, values["environment"])
    assert owner.watch.take() == []


async def test_a_live_tail_follows_and_ends(
    owner: Person, platform: PlatformProcess, values: dict[str, Any]
) -> None:
    await follow_live_tail(owner, platform, values["environment"])
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
    owner: Person, platform: PlatformProcess, values: dict[str, Any], hostile: Hostile
) -> None:
    """Pages without an object in their address have shown it before, in `test_a_page_has_no_fault`."""
    values = {**values, **DemoObjects(platform).fill_in_hostile(hostile)}
    faults = []
    # This environment has no deployment and no process.
    owner.watch.expected.add(409)
    for view in list_views():
        if ":" not in view or view.startswith(("/configuration/:", "/deployments/")):
            continue
        await owner.open(fill_address(view, values))
        faults += [f"{view}: {fault}" for fault in await _find_run_markup(owner, view)]
    owner.watch.expected.discard(409)
    assert [*faults, *owner.watch.take()] == []
    # The pages did contain the markup: pages of each area show it.
    assert len(_MARKED) >= len(PATTERNS) // 4, _MARKED
