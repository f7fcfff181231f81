"""Headless Chromium, controlled over its DevTools protocol."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.engines import EngineMissing
from tests.support.reaper import run_folder
from tests.support.waits import wait_for_result

_START_SECONDS = 120.0
_SECONDS = 60.0
# Headless Chromium's own User-Agent names a bot.
USER_AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)


class Tab:
    """One page. `posts` are the bodies that it has sent, `responses` what it got: kind of request, status and URL.

    `faults` are exceptions and console output of its scripts.
    """

    def __init__(self, browser: "Chromium", context: str, target: str, session: str) -> None:
        self.posts: list[str] = []
        self.responses: list[tuple[str, int, str]] = []
        self.faults: list[str] = []
        self.paused: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.target = target
        self._browser, self._context, self._session = browser, context, session
        self._loaded: set[tuple[str, str]] = set()

    def on_event(self, method: str, params: dict[str, Any]) -> None:
        """Record the protocol events that tests use."""
        if method == "Page.lifecycleEvent" and params["name"] in ("load", "DOMContentLoaded"):
            self._loaded.add((params["loaderId"], params["name"]))
        elif method == "Network.requestWillBeSent":
            if params.get("type") == "Document":
                self._browser.note_origin(params["request"]["url"])
            if "postData" in params["request"]:
                self.posts.append(params["request"]["postData"])
        elif method == "Network.responseReceived":
            self.responses.append((params["type"], params["response"]["status"], params["response"]["url"]))
        elif method == "Page.frameNavigated":
            # A page from the back/forward cache, or a prerendered one, is shown without a request.
            self._browser.note_origin(params["frame"]["url"])
        elif method == "Fetch.requestPaused":
            self.paused.put_nowait(params)
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.faults.append(str(params))

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this tab; return its result. Raises `RuntimeError`."""
        return await self._browser.send(method, params, self._session)

    async def add_startup_script(self, source: str) -> None:
        """Run this in every later document, before its own scripts."""
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=source)

    async def open(self, url: str, until_event: str = "load") -> None:
        """Open a URL as from the address bar; wait for `load` or `DOMContentLoaded`."""
        loader = (await self.send("Page.navigate", url=url))["loaderId"]

        async def loaded() -> bool:
            return (loader, until_event) in self._loaded

        await wait_for_result(loaded)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise. Raises `RuntimeError`."""
        result = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    async def wait_at(self, path: str) -> None:
        """Wait until a navigation has loaded the page of this path."""

        async def is_loaded() -> bool:
            with contextlib.suppress(RuntimeError):
                expression = "document.readyState === 'complete' && location.pathname"
                return bool(await self.evaluate(expression) == path)
            return False

        await wait_for_result(is_loaded)

    async def click(self, selector: str, button: str = "left") -> None:
        """Click in the middle of the element with mouse events."""
        box = await self.evaluate(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button=button, clickCount=1
            )

    async def hide(self) -> "Tab":
        """Bring another tab to the front; return that tab."""
        other = await self._browser.cover()
        await other.send("Page.bringToFront")
        await wait_for_result(lambda: self.evaluate("document.visibilityState === 'hidden'"))
        return other

    async def open_unwatched(self, url: str) -> None:
        """Open the URL in another tab without a DevTools session, because a session prevents prerendering."""
        params = {"url": url, "browserContextId": self._context}
        await self._browser.send("Target.createTarget", params)

    async def show(self) -> None:
        """Bring this tab to the front again."""
        await self.send("Page.bringToFront")
        await wait_for_result(lambda: self.evaluate("document.visibilityState === 'visible'"))

    async def close(self) -> None:
        """Close the tab as a visitor does, without waiting for its last requests."""
        await self._browser.send("Target.closeTarget", {"targetId": self.target})


class Chromium:
    """A running browser, made by `running_chromium`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._context: str | None = None
        self._cover: Tab | None = None
        self._origins: set[str] = set()

    async def listen(self) -> None:
        """Dispatch the browser's messages until it ends."""
        async for message in self._socket:
            document = message.json()
            if "id" not in document:
                if tab := self._tabs.get(document.get("sessionId", "")):
                    tab.on_event(document["method"], document["params"])
            elif not (waiting := self._waiting.pop(document["id"])).done():
                if "error" in document:
                    waiting.set_exception(RuntimeError(document["error"]["message"]))
                else:
                    waiting.set_result(document["result"])

    async def send(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Send a command; return its result. Raises `RuntimeError` and `TimeoutError`."""
        number = next(self._numbers)
        response: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = response
        command = {"id": number, "method": method, "params": params}
        await self._socket.send_json(command if session is None else {**command, "sessionId": session})
        async with asyncio.timeout(_SECONDS):
            return await response

    async def open_tab(self, context: str) -> Tab:
        """Open an empty tab in this browser context."""
        made = await self.send("Target.createTarget", {"url": "about:blank", "browserContextId": context})
        target = made["targetId"]
        attached = await self.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        tab = self._tabs[attached["sessionId"]] = Tab(self, context, target, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network"):
            await tab.send(f"{domain}.enable")
        await tab.send("Page.setLifecycleEventsEnabled", enabled=True)
        return tab

    async def cover(self) -> Tab:
        """Return the empty tab that hides other tabs. All visits share it, because opening a tab costs more than a
        visit."""
        if self._cover is None:
            assert self._context is not None
            self._cover = await self.open_tab(self._context)
        return self._cover

    def note_origin(self, url: str) -> None:
        """Remember the origin of a page, so that its data is cleared when the visitor leaves."""
        if url.startswith(("http://", "https://")):
            self._origins.add("/".join(url.split("/")[:3]))

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator[Tab]:
        """Yield a tab of a new visitor without stored data; close all tabs of the visitor at the end.

        Visitors share one browser context, one after the other: a new context costs half a second of CPU.
        """
        if self._context is None:
            self._context = (await self.send("Target.createBrowserContext", {}))["browserContextId"]
            await self.cover()
        try:
            yield await self.open_tab(self._context)
        except BaseException as error:
            try:
                await self._forget(self._context)
            except Exception as fault:
                # pytest must show the failure of the test itself.
                error.add_note(f"Then Chromium could not forget the visitor: {fault!r}")
            raise
        await self._forget(self._context)

    async def _forget(self, context: str) -> None:
        """Close all tabs of the visitor and clear the stored data of their origins."""
        cover = await self.cover()
        closed = set()
        for target in (await self.send("Target.getTargets", {}))["targetInfos"]:
            # The browser's own windows (`browser_ui`) stay open.
            is_visitors = target.get("browserContextId") == context and target["type"] != "browser_ui"
            if is_visitors and target["targetId"] != cover.target:
                # A tab without a session has reported no navigation.
                self.note_origin(target["url"])
                with contextlib.suppress(RuntimeError):
                    await self.send("Target.closeTarget", {"targetId": target["targetId"]})
                    closed.add(target["targetId"])

        async def are_closed() -> bool:
            targets = (await self.send("Target.getTargets", {}))["targetInfos"]
            return closed.isdisjoint(target["targetId"] for target in targets)

        # `closeTarget` returns before the page has closed: until then it may still send beacons and store data.
        await wait_for_result(are_closed)
        while self._origins:
            origin = self._origins.pop()
            await cover.send("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        await cover.send("Network.clearBrowserCache")


@asynccontextmanager
async def running_chromium(folder: Path) -> AsyncIterator[Chromium]:
    """Yield a browser whose profile is in `folder`; kill it at the end. Raises `EngineMissing` and `RuntimeError`."""
    process = _start(folder)
    try:
        address = await _address(folder, process)
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
            browser = Chromium(socket)
            listening = asyncio.create_task(browser.listen())
            try:
                yield browser
            finally:
                listening.cancel()
                await asyncio.wait([listening])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def _start(folder: Path) -> "subprocess.Popen[bytes]":
    program = shutil.which("chromium")
    if program is None:
        raise EngineMissing("chromium is not installed; on Debian: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "chromium.log", "ab") as log:
        return subprocess.Popen(
            [
                *(program, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage"),
                *("--remote-debugging-port=0", f"--user-data-dir={folder}", f"--user-agent={USER_AGENT}"),
                *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
                # Tests use neither pixels nor any part of the browser beyond its pages.
                *("--disable-gpu", "--disable-extensions", "--disable-sync", "--disable-default-apps"),
                *("--disable-component-extensions-with-background-pages", "--disable-breakpad"),
                "--disable-features=Translate,MediaRouter,DialMediaRouteProvider,OptimizationHints",
                # Accept clicks before a page's first frame: on a slow machine `load` comes before that frame.
                "--allow-pre-commit-input",
                # Tests connect to this machine only.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # The browser creates its socket in this folder, so the path must be short.
            env={**os.environ, "TMPDIR": str(run_folder())},
            # A process group: the browser has many processes.
            start_new_session=True,
        )


async def _address(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    async def read_port_file() -> list[str] | None:
        if process.poll() is not None:
            raise RuntimeError((folder / "chromium.log").read_text(errors="replace")[-2000:])
        with contextlib.suppress(OSError):
            lines = (folder / "DevToolsActivePort").read_text().split()
            return lines if len(lines) == 2 else None
        return None

    port, path = await wait_for_result(read_port_file, _START_SECONDS)
    return f"ws://127.0.0.1:{port}{path}"
