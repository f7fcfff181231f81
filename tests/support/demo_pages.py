"""Small pages with the tracker's tag, served from a separate origin."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

_CAMPAIGN = "utm_source=news&utm_medium=mail&utm_campaign=autumn"
_STUB = "window.pharos = window.pharos || function () { (pharos.q = pharos.q || []).push(arguments) };"
_SHIFTING = """
<script>
  const late = () => { document.querySelector("#late").textContent = "A far larger text. ".repeat(80) }
  // After the first paint, however late that is.
  new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").length && setTimeout(late, 300))
    .observe({type: "paint", buffered: true})
  const busy = () => { for (const end = performance.now() + 120; performance.now() < end;); }
  const shift = () => { document.querySelector("#space").style.height = "30px" }
</script>
<button onclick="busy()">Slow</button> <div id="space"></div> <p>First.</p> <p id="late"></p>
"""
_LINKS = """
<p><a id="outbound" href="{elsewhere}/{folder}/elsewhere?from=here">Elsewhere</a></p>
<p><a id="inside" href="plain"><b>Here</b></a></p>
<p><a id="file" href="report.PDF?version=2">A file</a></p>
<p><a id="saved" download href="second?as=copy" onclick="event.preventDefault()">Save</a></p>
<p><a id="made" download="export.csv" href="data:text/csv,secret" onclick="event.preventDefault()">Export</a></p>
<p><a id="nowhere" download onclick="event.preventDefault()">Nothing</a></p>
<p><a id="mail" href="mailto:somebody@example.com">Mail</a></p>
"""
_SPECULATION = """
<script type="speculationrules">{"prerender": [{"urls": ["prerendered"], "eagerness": "immediate"}]}</script>
<a id="next" href="prerendered">Next</a>
<script>if (location.search) fetch("go").then(() => document.querySelector("#next").click())</script>
"""
# The tag loads late, so that a frame's own script comes first.
_FRAMED = """
<a id="out" href="{elsewhere}/{folder}/elsewhere?framed" onclick="event.preventDefault()">Elsewhere</a>
<script>
  addEventListener("load", () => {{
    pharos("event", "In a frame")
    history.pushState({{}}, "", "framed-second")
    pharos("pageview")
    document.querySelector("#out").click()
  }})
</script>
"""
_PRERENDERED = """
<script>
  fetch(`prerendering-${document.prerendering}`)
  document.addEventListener("prerenderingchange", () => fetch("activated"))
  addEventListener("load", () => pharos("event", "Ahead", {prerendering: document.prerendering}))
</script>
"""


@dataclass(slots=True)
class DemoPages:
    """Pages at `/<folder>/<name>` for any folder. `requests` counts requests by path. A request for `go` waits until
    `release` is called for its folder."""

    port: int
    tracker: str
    site: str
    requests: Counter[str] = field(default_factory=Counter)
    _released: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    @property
    def origin(self) -> str:
        """The origin of the tracked site."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def elsewhere(self) -> str:
        """The origin of another host that serves the same pages."""
        return f"http://localhost:{self.port}"

    def release(self, folder: str) -> None:
        """Respond to the requests for `go` in this folder."""
        self._released[folder].set()

    def _page(self, folder: str, name: str) -> str:
        tag = f'<script defer src="{self.tracker}/tracker/v1.js" data-site="{self.site}"></script>'
        body = f"<h1>{name}</h1>"
        match name:
            case "elsewhere":
                tag, body = "", f'<a id="back" href="{self.origin}/{folder}/plain?{_CAMPAIGN}">Back</a>'
            case "hash":
                tag = tag.replace(" data-site", " data-hash data-site")
            case "missing":
                tag += '<meta name="pharos" content="404">'
            case "missing-by-attribute":
                tag = tag.replace(" data-site", " data-404 data-site")
            case "under-api":
                tag = tag.replace("/tracker/v1.js", "/api/tracker/v1.js")
            case "own-api":
                tag = tag.replace(
                    " data-site", f' data-api="{self.tracker}/api/v1/collect" data-site'
                ).replace("/tracker/v1.js", "/api/tracker/v1.js?as=copy")
            case "stub":
                call = "pharos('event', 'Early', {step: 1})"
                tag = f"<script>{_STUB} {call}</script>{tag}"
            case "links":
                body += _LINKS.format(elsewhere=self.elsewhere, folder=folder)
            case "framed":
                tag = tag.replace(" data-site", " data-404 data-site")
                body += _FRAMED.format(elsewhere=self.elsewhere, folder=folder)
            case "framing":
                body += '<iframe src="framed"></iframe>'
            case "framing-from-elsewhere":
                tag, body = "", f'<iframe src="{self.origin}/{folder}/framed"></iframe>'
            case "speculating":
                body += _SPECULATION
            case "prerendered":
                body += _PRERENDERED
            case "shifting":
                body += _SHIFTING
        return f'<!doctype html><html lang="en"><title>{name}</title><head>{tag}</head><body>{body}</body></html>'

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond with a page; for a file with 204, so that the page with the link stays open."""
        self.requests[request.path] += 1
        _, folder, name, *_ = [*request.path.split("/"), "", ""]
        if name == "go":
            await self._released[folder].wait()
            return web.Response(status=204)
        if name.endswith(".PDF"):
            return web.Response(status=204)
        status = 404 if name.startswith("missing") or not name else 200
        return web.Response(status=status, text=self._page(folder, name), content_type="text/html")


@asynccontextmanager
async def demo_pages(port: int, tracker: str, site: str) -> AsyncIterator[DemoPages]:
    """Serve the pages on this loopback port, with the tracker of this server (scheme, host, port) and site."""
    pages = DemoPages(port, tracker, site)
    runner = web.ServerRunner(web.Server(pages.respond), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield pages
    finally:
        await runner.cleanup()
