"""Chromium without a window, spoken to over its DevTools protocol."""

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
    """One page. `posts` are the bodies that it sent, `faults` what its scripts threw or wrote to the console."""

    def __init__(self, browser: "Chromium", context: str, target: str, session: str) -> None:
        self.posts: list[str] = []
        self.faults: list[str] = []
        self.paused: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.target = target
        self._browser, self._context, self._session = browser, context, session
        self._loaded: set[tuple[str, str]] = set()

    def on_event(self, method: str, params: dict[str, Any]) -> None:
        """Keep of the protocol's events what tests ask for."""
        if method == "Page.lifecycleEvent" and params["name"] in ("load", "DOMContentLoaded"):
            self._loaded.add((params["loaderId"], params["name"]))
        elif method == "Network.requestWillBeSent":
            if params.get("type") == "Document":
                self._browser.note_origin(params["request"]["url"])
            if "postData" in params["request"]:
                self.posts.append(params["request"]["postData"])
        elif method == "Page.frameNavigated":
            # A page from the back/forward cache, or a prerendered one, is shown without a request.
            self._browser.note_origin(params["frame"]["url"])
        elif method == "Fetch.requestPaused":
            self.paused.put_nowait(params)
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.faults.append(str(params))

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol and its result. Raises `RuntimeError`."""
        return await self._browser.send(method, params, self._session)

    async def before_scripts(self, source: str) -> None:
        """Run this in every document to come, before its own scripts."""
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=source)

    async def open(self, url: str, until_event: str = "load") -> None:
        """Go there as from the address bar, and wait for `load` or `DOMContentLoaded`."""
        loader = (await self.send("Page.navigate", url=url))["loaderId"]

        async def loaded() -> bool:
            return (loader, until_event) in self._loaded

        await wait_for_result(loaded)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise. Raises `RuntimeError`."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def is_at(self, path: str) -> None:
        """Wait until the page of this path is shown, which another one has led to."""

        async def there() -> bool:
            with contextlib.suppress(RuntimeError):
                ask = "document.readyState === 'complete' && location.pathname"
                return bool(await self.evaluate(ask) == path)
            return False

        await wait_for_result(there)

    async def click(self, selector: str, button: str = "left") -> None:
        """Click in the middle of the element, as a mouse does."""
        box = await self.evaluate(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button=button, clickCount=1
            )

    async def hide(self) -> "Tab":
        """Put another tab before this one; gives that other tab."""
        other = await self._browser.cover()
        await other.send("Page.bringToFront")
        await wait_for_result(lambda: self.evaluate("document.visibilityState === 'hidden'"))
        return other

    async def open_unwatched(self, url: str) -> None:
        """The page in another tab that nothing is attached to: what is attached keeps pages from prerendering."""
        params = {"url": url, "browserContextId": self._context}
        await self._browser.send("Target.createTarget", params)

    async def show(self) -> None:
        """Bring this tab to the front again."""
        await self.send("Page.bringToFront")
        await wait_for_result(lambda: self.evaluate("document.visibilityState === 'visible'"))

    async def close(self) -> None:
        """Close it as a visitor does; what it does in farewell is not waited for."""
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
        """Hand out what the browser says, until it ends."""
        async for message in self._socket:
            said = message.json()
            if "id" not in said:
                if tab := self._tabs.get(said.get("sessionId", "")):
                    tab.on_event(said["method"], said["params"])
            elif not (waiting := self._waiting.pop(said["id"])).done():
                if "error" in said:
                    waiting.set_exception(RuntimeError(said["error"]["message"]))
                else:
                    waiting.set_result(said["result"])

    async def send(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """One command and its result. Raises `RuntimeError` and `TimeoutError`."""
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        command = {"id": number, "method": method, "params": params}
        await self._socket.send_json(command if session is None else {**command, "sessionId": session})
        async with asyncio.timeout(_SECONDS):
            return await answer

    async def open_tab(self, context: str) -> Tab:
        """An empty tab of this browser context."""
        made = await self.send("Target.createTarget", {"url": "about:blank", "browserContextId": context})
        target = made["targetId"]
        attached = await self.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        tab = self._tabs[attached["sessionId"]] = Tab(self, context, target, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network"):
            await tab.send(f"{domain}.enable")
        await tab.send("Page.setLifecycleEventsEnabled", enabled=True)
        return tab

    async def cover(self) -> Tab:
        """Return an empty tab to hide other tabs with: a new one for each would cost more than a visit."""
        if self._cover is None:
            assert self._context is not None
            self._cover = await self.open_tab(self._context)
        return self._cover

    def note_origin(self, url: str) -> None:
        """Remember an origin that a page came from: its data is cleared when the visitor has left."""
        if url.startswith(("http://", "https://")):
            self._origins.add("/".join(url.split("/")[:3]))

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator[Tab]:
        """A tab of somebody new: nothing is stored; all that it opens is closed at the end.

        Visitors share one browser context, one after the other: a context of its own costs half a second of CPU.
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
                # The test's own failure is the one to show.
                error.add_note(f"Then Chromium could not forget the visitor: {fault!r}")
            raise
        await self._forget(self._context)

    async def _forget(self, context: str) -> None:
        """Close all tabs of the visitor and clear what their origins have stored."""
        cover = await self.cover()
        closed = set()
        for target in (await self.send("Target.getTargets", {}))["targetInfos"]:
            # The browser's own windows (`browser_ui`) stay open.
            is_visitors = target.get("browserContextId") == context and target["type"] != "browser_ui"
            if is_visitors and target["targetId"] != cover.target:
                # A tab that nothing was attached to has reported no navigation.
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
    """A browser with this folder as its profile, gone at the end. Raises `EngineMissing` and `RuntimeError`."""
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
                # Nothing here looks at pixels or at what the browser has beside its pages.
                *("--disable-gpu", "--disable-extensions", "--disable-sync", "--disable-default-apps"),
                *("--disable-component-extensions-with-background-pages", "--disable-breakpad"),
                "--disable-features=Translate,MediaRouter,DialMediaRouteProvider,OptimizationHints",
                # Clicks before a page's first frame count too: on a slow machine `load` comes before it.
                "--allow-pre-commit-input",
                # Tests reach nothing but this machine.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # It leaves a folder with its socket there, whose path must be short.
            env={**os.environ, "TMPDIR": str(run_folder())},
            # A group of its own: the browser is many processes.
            start_new_session=True,
        )


async def _address(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    async def told() -> list[str] | None:
        if process.poll() is not None:
            raise RuntimeError((folder / "chromium.log").read_text(errors="replace")[-2000:])
        with contextlib.suppress(OSError):
            lines = (folder / "DevToolsActivePort").read_text().split()
            return lines if len(lines) == 2 else None
        return None

    port, path = await wait_for_result(told, _START_SECONDS)
    return f"ws://127.0.0.1:{port}{path}"
