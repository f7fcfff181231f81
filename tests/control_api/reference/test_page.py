"""The reference page in a real browser that can reach only this machine."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from control_api.app import build_control_app
from control_api.reference.load_document import load_document
from control_domain.database.engine import open_engine, open_sessions
from tests.support.chromium import Tab
from tests.support.serve_control import serving_control
from tests.support.tracked_visit import chromium_or_skip
from tests.support.waits import wait_for_result

_NOTHING = cast(Any, None)
_METHODS = {"get", "put", "post", "patch", "delete", "options"}
_TAG_OF = {
    operation["operationId"]: operation["tags"][0]
    for item in load_document()["paths"].values()
    for method, operation in item.items()
    if method in _METHODS
}
_OPENED = ("read_account", "create_silence", "receive_github_app_webhook")
_OPERATIONS = {f"operations-{tag}-{name}" for name, tag in _TAG_OF.items()}
"""The IDs of all operations on the page."""
# A browser draws dozens of operations one by one, which takes half a minute, and minutes on a loaded machine.
pytestmark = pytest.mark.timeout(900)

_SHOWN = "[...document.querySelectorAll('.opblock')].map(each => each.id)"
# Resolves after the browser has drawn the part of the page that it was scrolled to.
_SCROLL = """
new Promise(done => {
  const before = scrollY;
  scrollBy(0, innerHeight);
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(scrollY > before))));
})
"""


class _Watched:
    """A browser tab with the page, its requests and its console messages."""

    def __init__(self, tab: Tab, url: str) -> None:
        self.tab, self.url = tab, url
        self.requested: list[str] = []
        self.console: list[str] = []
        self._keep = tab.on_event
        tab.on_event = self._on_event  # type: ignore[method-assign]

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        self._keep(method, params)
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])


@pytest.fixture(scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[_Watched]:
    """One page for both tests: starting a browser and rendering the page takes seconds."""
    # No request reads the database: callers without a token are refused earlier.
    app = build_control_app(
        open_sessions(open_engine("sqlite+aiosqlite://")), _NOTHING, b"receipts", _NOTHING
    )
    async with (
        serving_control(app) as url,
        chromium_or_skip(tmp_path_factory.mktemp("chromium")) as browser,
        browser.visitor() as tab,
    ):
        watched = _Watched(tab, url)
        await tab.send("Log.enable")
        await tab.open(f"{url}/api/docs")
        await wait_for_result(lambda: tab.evaluate(f"{_SHOWN}.length > 0"))
        yield watched


async def _open_and_close(tab: Tab, operation_id: str) -> None:
    operation = f"document.getElementById('{operation_id}')"
    opening = f"{operation}.querySelector('.opblock-summary-control').click()"
    before = await tab.evaluate("scrollY")
    # The page removes elements that are far from the visible part, including those that an opened operation has pushed
    # away.
    await tab.evaluate(f"{operation}?.scrollIntoView({{block: 'center'}})")
    await wait_for_result(lambda: tab.evaluate(f"!!{operation}"))
    await tab.evaluate(opening)
    await wait_for_result(lambda: tab.evaluate(f"!!{operation}?.querySelector('.responses-table')"))
    await tab.evaluate(opening)
    await tab.evaluate(f"scrollTo(0, {before})")


async def test_page_shows_every_operation_and_loads_from_no_other_host(page: _Watched) -> None:
    tab = page.tab
    assert await tab.evaluate("document.querySelector('.title').innerText.startsWith('Pharos')")
    # Three of them, because opening an operation takes a browser three seconds.
    to_open = {f"operations-{_TAG_OF[name]}-{name}" for name in _OPENED}
    # The page draws only elements near the visible part, and the content of an operation when it is opened.
    shown: set[str] = set()
    while True:
        drawn = set(await tab.evaluate(_SHOWN))
        for name in sorted(drawn & to_open - shown):
            await _open_and_close(tab, name)
        shown |= drawn
        if not await tab.evaluate(_SCROLL) and set(await tab.evaluate(_SHOWN)) <= shown:
            break
    assert shown == _OPERATIONS
    await tab.evaluate("scrollTo(0, 0)")
    await tab.evaluate("document.querySelector('.authorize').click()")
    await wait_for_result(
        lambda: tab.evaluate("document.querySelector('.modal-ux')?.innerText.includes('phr_pat_')")
    )
    foreign = [one for one in page.requested if not one.startswith((page.url, "data:"))]
    assert not foreign
    assert f"{page.url}/api/openapi.json" in page.requested
    assert not page.console
    assert not tab.faults


async def test_operation_can_be_tried_out(page: _Watched) -> None:
    tab, operation = page.tab, "#operations-Account-read_account"
    await tab.evaluate("scrollTo(0, 0)")
    for element in (".opblock-summary-control", ".try-out__btn", ".execute"):
        found = f"document.querySelector('{operation} {element}')"
        await wait_for_result(lambda found=found: tab.evaluate(f"!!{found}"))
        await tab.evaluate(f"{found}.click()")
    answered = (
        f"document.querySelector('{operation} .live-responses-table tbody .response-col_status')?.innerText"
    )
    status = await wait_for_result(lambda: tab.evaluate(answered))
    # Without a token, the page shows the response of the real operation on this origin.
    assert status.startswith("401")
    assert f"{page.url}/api/v1/account" in page.requested
