"""The documentation at `/docs`, without authentication: its pages, images, style sheet, scripts and search index."""

from functools import lru_cache
from threading import Lock

from fastapi import APIRouter, Request, Response

from control_api.reference.operation_pages import list_operation_pages
from control_api.reference.served_files import REVALIDATE, ServedFile, file_response, pack_file
from pipeline_contracts.errors import UNKNOWN_ADDRESS, NotFound
from web_dashboard.documentation.files import list_images, read_text_asset
from web_dashboard.documentation.site import PREFIX, Site, open_site

router = APIRouter(prefix=PREFIX, include_in_schema=False)

_HEADERS = {
    "Cache-Control": REVALIDATE,
    # Nothing inline and nothing from other hosts.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
}
_ASSETS = {"docs.css": "text/css", "docs.js": "text/javascript", "theme.js": "text/javascript"}


# Not coroutines: FastAPI runs these in threads, because they read files and render them at the first request.
@router.get("/assets/{name}")
def read_asset(name: str, request: Request) -> Response:
    """The style sheet or a script."""
    if name not in _ASSETS:
        raise NotFound(UNKNOWN_ADDRESS)
    return file_response(request, _asset(name), _HEADERS)


@router.get("/images/{name}")
def read_image(name: str, request: Request) -> Response:
    """An image of a page."""
    if name not in list_images():
        raise NotFound(UNKNOWN_ADDRESS)
    return file_response(request, _image(name), _HEADERS)


@router.get("/search.json")
def read_search_index(request: Request) -> Response:
    """The texts that the search looks through."""
    with _rendering:
        index = _search_index()
    return file_response(request, index, _HEADERS)


@router.get("")
@router.get("/{address:path}")
def read_page(request: Request, address: str = "") -> Response:
    """A page, or a page that says that there is none."""
    # Only addresses of known files are read.
    page = _page(address.rstrip("/"))
    if page is not None:
        return file_response(request, page, _HEADERS)
    return Response(_missing_page(), status_code=404, headers=_HEADERS, media_type="text/html")


# Simultaneous first requests wait for one rendering: `lru_cache` alone would let each of them render.
_rendering = Lock()


@lru_cache
def _site() -> Site:
    return open_site(list_operation_pages())


@lru_cache
def _missing_page() -> bytes:
    return _site().read_missing_page()


@lru_cache
def _asset(name: str) -> ServedFile:
    return pack_file(_ASSETS[name], read_text_asset(name).encode())


@lru_cache
def _image(name: str) -> ServedFile:
    path, content_type = list_images()[name]
    return pack_file(content_type, path.read_bytes())


@lru_cache
def _search_index() -> ServedFile:
    return pack_file("application/json", _site().write_search_index())


def _page(address: str) -> ServedFile | None:
    # Only existing pages are kept: anybody may ask for any number of others.
    page = _pages.get(address)
    if page is None:
        with _rendering:
            page = _pages.get(address)
            if page is None and (html := _site().read_page(address)) is not None:
                page = _pages[address] = pack_file("text/html", html)
    return page


_pages: dict[str, ServedFile] = {}
