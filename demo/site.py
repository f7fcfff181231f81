"""Serves the demo shop as a real site: a few pages with the tracker's tag, on their own origin."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from socket import socket
from string import Template

from aiohttp import web

from demo.journeys import CARE_GUIDE, POSTS, PRODUCTS
from ingest_edge.listening import PortInUse, bind

_HOST = "127.0.0.1"
_FOLDER = Path(__file__).parent / "pages"
_PRODUCTS_ON_HOME = 3
_NOT_FOUND_META = '<meta name="pharos" content="404">'

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def running_demo_site(tracker_url: str, tracker_id: str, port: int = 8080) -> AsyncIterator[str]:
    """Serve the pages on 127.0.0.1, on `port` or, if it is taken, on a free port; yield their origin.

    `tracker_url` is the URL of the tracker's script, and `tracker_id` the value of its `data-site`.
    """
    app = web.Application()
    for path, text in _pages(tracker_url, tracker_id).items():
        app.router.add_get(path, _page(text))
    app.router.add_get(CARE_GUIDE, _file((_FOLDER / "care-guide.pdf").read_bytes(), "application/pdf"))
    app.router.add_post("/inbox", _take_message)
    app.router.add_get("/{path:.*}", _page(_missing_page(tracker_url, tracker_id), status=404))
    app.on_response_prepare.append(_forbid_sniffing)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        server = _bind(port)
        await web.SockSite(runner, server).start()
        yield f"http://{_HOST}:{server.getsockname()[1]}"
    finally:
        await runner.cleanup()


def _bind(port: int) -> socket:
    try:
        return bind(_HOST, port)
    except PortInUse:
        return bind(_HOST, 0)


def _page(text: str, status: int = 200) -> _Handler:
    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")

    return respond


def _file(body: bytes, content_type: str) -> _Handler:
    async def respond(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type)

    return respond


async def _take_message(request: web.Request) -> web.StreamResponse:
    """Accept a message of the demo's notification channel."""
    await request.read()
    return web.Response(status=204)


async def _forbid_sniffing(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["X-Content-Type-Options"] = "nosniff"


def _pages(tracker_url: str, tracker_id: str) -> dict[str, str]:
    """Return the pages by path."""

    def render(title: str, content: str) -> str:
        return _render_page(tracker_url, tracker_id, title, content)

    product, post = _template("product"), _template("post")
    products = [
        f'<li><a href="/products/{slug}">{escape(name)}</a> {price:.2f} EUR</li>'
        for slug, (name, price) in PRODUCTS.items()
    ]
    posts = [f'<li><a href="/blog/{slug}">{escape(title)}</a></li>' for slug, title in POSTS.items()]
    home = _template("home").substitute(
        products="\n".join(products[:_PRODUCTS_ON_HOME]), posts="\n".join(posts)
    )
    pages = {
        "/": render("Light for long evenings", home),
        "/products": render("Products", _template("products").substitute(products="\n".join(products))),
    }
    for path, title in (
        ("/cart", "Your cart"),
        ("/checkout", "Checkout"),
        ("/thanks", "Thank you"),
        ("/about", "About us"),
    ):
        pages[path] = render(title, _template(path[1:]).substitute())
    for slug, (name, price) in PRODUCTS.items():
        content = product.substitute(
            name=escape(name), price=f"{price:.2f}", revenue=price, care_guide=CARE_GUIDE
        )
        pages[f"/products/{slug}"] = render(name, content)
    for slug, title in POSTS.items():
        pages[f"/blog/{slug}"] = render(title, post.substitute(name=escape(title)))
    return pages


def _missing_page(tracker_url: str, tracker_id: str) -> str:
    content = _template("missing").substitute()
    return _render_page(tracker_url, tracker_id, "Not found", content, _NOT_FOUND_META)


def _render_page(tracker_url: str, tracker_id: str, title: str, content: str, head: str = "") -> str:
    """Return a whole page; `content` and `head` are HTML, all other arguments are text."""
    return _template("frame").substitute(
        title=escape(title),
        head=head,
        tracker_url=escape(tracker_url),
        tracker_id=escape(tracker_id),
        content=content,
    )


def _template(name: str) -> Template:
    return Template((_FOLDER / f"{name}.html").read_text(encoding="utf-8"))
