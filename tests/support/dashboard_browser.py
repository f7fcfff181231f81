"""The dashboard in Debian's Chromium, driven by Playwright: people who are signed in, and checks of whole pages."""

import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from playwright.async_api import Browser, BrowserContext, Page, Response, ViewportSize, async_playwright
from playwright.async_api import TimeoutError as PlaywrightTimeout

from operator_cli.local.operator_socket import post_to_socket
from pipeline_contracts.operator_requests import CreateSignInLink, OperatorCall
from tests.support.axe_core import read_axe
from tests.support.engines import EngineMissing
from tests.support.platform_process import PlatformProcess

PASSWORD = "an evening by the harbour"
DESKTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
_TALLEST = 3000
_TIMEOUT_MS = 60_000
_DARK_SECONDS = 5.0
# Rules for which a page needs no exception.
_AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN_AXE = f"""async ([selector, rules]) => (await axe.run(selector ?? document, {{
  runOnly: rules ? {{type: 'rule', values: rules}} : {{type: 'tag', values: {_AXE_TAGS!r}}},
  resultTypes: ['violations'],
}})).violations.map((found) =>
  `${{found.id}}: ${{found.help}} ${{found.nodes.map((node) => node.html + (node.any[0]?.data?.fgColor
    ? ` (${{node.any[0].data.fgColor}} on ${{node.any[0].data.bgColor}})` : '')).join(' ').slice(0, 600)}}`)"""
_RULES_OF_COLOURS = ["color-contrast", "link-in-text-block"]
_OVERFLOW = """() => {
  const width = document.documentElement.clientWidth
  if (document.documentElement.scrollWidth <= width) return []
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > width + 1)
    .slice(0, 5).map((element) => element.outerHTML.slice(0, 200))
}"""
# Inherited colours and the layout change in the next frame after a change of the medium.
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Between two responses a page may seem complete for a moment.
_IS_QUIET = """() => {
  const now = performance.now()
  if (document.querySelector('[aria-busy="true"]') || !document.querySelector('h1')) window.quietSince = undefined
  else window.quietSince ??= now
  return window.quietSince !== undefined && now - window.quietSince > 100
}"""


@dataclass(slots=True)
class Watch:
    """The faults in the pages of a person: errors of scripts, violations of the Content-Security-Policy, failed
    requests."""

    faults: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)
    """Statuses of responses that do not count as faults, because a test provokes them."""

    def attach(self, page: Page) -> None:
        page.on("console", lambda message: self._note_console(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("response", lambda response: self._note_response(response))

    def _note_console(self, kind: str, text: str) -> None:
        # The browser writes a line for each response with an error status, which is noted as a response.
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.faults.append(f"console {kind}: {text}")

    def _note_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.faults.append(f"{response.request.method} {response.url}: {response.status}")

    def take(self) -> list[str]:
        """Return the faults so far, and forget them."""
        faults, self.faults = self.faults, []
        return faults


class Person:
    """A person with a separate browser. `page` is their first tab."""

    def __init__(self, context: BrowserContext, page: Page, watch: Watch, origin: str) -> None:
        self.context, self.page, self.watch, self.origin = context, page, watch, origin

    async def open(self, path: str) -> None:
        """Open a page of the dashboard, and wait until it shows its data."""
        await self.page.goto(self.origin + path)
        await self.wait_until_quiet()

    async def wait_until_quiet(self) -> None:
        """Wait until no part of the page is loading."""
        await self.page.evaluate("window.quietSince = undefined")
        try:
            await self.page.wait_for_function(_IS_QUIET)
        except PlaywrightTimeout as error:
            shown = await self.page.inner_text("body")
            raise AssertionError(f"{self.page.url} is still loading and shows: {shown[:2000]}") from error

    async def find_faults(self) -> list[str]:
        """Return the faults of the present page: violations of accessibility in light and dark, and elements wider than
        a phone."""
        faults = [f"light: {fault}" for fault in await self.run_axe()]
        await self.page.emulate_media(color_scheme="dark")
        await self.page.evaluate(DRAWN)
        faults += [f"dark: {fault}" for fault in await self._find_wrong_colours()]
        await self.page.emulate_media(color_scheme="light")
        await self.page.set_viewport_size(PHONE)
        await self.page.evaluate(DRAWN)
        faults += [f"wider than a phone: {each}" for each in await self.page.evaluate(_OVERFLOW)]
        await self.page.set_viewport_size(DESKTOP)
        return faults

    async def _find_wrong_colours(self) -> list[str]:
        """Return faults of the colours, the only difference between light and dark. A busy browser takes a while to
        draw the colours."""
        deadline = time.monotonic() + _DARK_SECONDS
        while faults := await self.run_axe(rules=_RULES_OF_COLOURS):
            if time.monotonic() > deadline:
                break
            await self.page.wait_for_timeout(200)
        return faults

    async def run_axe(self, selector: str | None = None, rules: list[str] | None = None) -> list[str]:
        """Return the faults of accessibility in a part of the page; `rules`: check only these."""
        if not await self.page.evaluate("'axe' in window"):
            # Run the script over the DevTools protocol, which the Content-Security-Policy of the page does not
            # restrict.
            await self.page.evaluate(read_axe())
        found: list[str] = await self.page.evaluate(_RUN_AXE, [selector, rules])
        return found

    async def take_picture(self, path: Path) -> None:
        """Store a picture of the whole page as a PNG file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # A full-page picture would omit parts of fixed elements.
        size = self.page.viewport_size or DESKTOP
        height = await self.page.evaluate("document.documentElement.scrollHeight")
        tall = ViewportSize(width=size["width"], height=max(size["height"], min(height, _TALLEST)))
        await self.page.set_viewport_size(tall)
        await self.page.evaluate(DRAWN)
        await self.page.screenshot(path=path)
        await self.page.set_viewport_size(size)

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API as the page does, with the cookie; return the member `data`."""
        script = """async ([method, path, body]) => {
          const response = await fetch('/api' + path, {
            method, headers: {'Content-Type': 'application/json'},
            body: body === null ? undefined : JSON.stringify(body),
          })
          return [response.status, await response.text()]
        }"""
        status, text = await self.page.evaluate(script, [method, path, body])
        assert status < 400, f"{method} {path}: {status} {text}"
        return json.loads(text)["data"] if text else None


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Yield Chromium. Raises `EngineMissing`."""
    program = shutil.which("chromium")
    if program is None:
        raise EngineMissing("chromium is not installed; on Debian: apt-get install chromium")
    read_axe()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-component-update"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visitor(browser: Browser, origin: str, *, watch: Watch | None = None) -> AsyncIterator[Person]:
    """Yield a person who is not signed in."""
    context = await browser.new_context(
        viewport=DESKTOP,
        locale="en-GB",
        timezone_id="Europe/Oslo",
        reduced_motion="reduce",
    )
    context.set_default_timeout(_TIMEOUT_MS)
    try:
        watch = watch or Watch()
        page = await context.new_page()
        watch.attach(page)
        yield Person(context, page, watch, origin)
    finally:
        await context.close()


async def sign_in(person: Person, platform: PlatformProcess, email: str) -> None:
    """Sign a person of the account in: set a password through a one-time link of the operator."""
    asked = msgspec.json.encode(OperatorCall(operator="tests", request=CreateSignInLink(email=email)))
    status, link = post_to_socket(platform.data, "/calls", asked)
    assert status == 200, link
    person.watch.expected.add(401)
    await person.page.goto(f"{person.origin}/sign-in")
    body = {"link": json.loads(link)["data"]["link"], "password": PASSWORD}
    await person.request("POST", "/v1/session/link", body)
    person.watch.expected.discard(401)
    person.watch.take()
