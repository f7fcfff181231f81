"""The dashboard: its document at `/` and at the address of each page, and its assets, without authentication.

The files are the same for everybody and contain no data. The pages ask the API for it, with the session of the person.
"""

from functools import cache, lru_cache

from fastapi import APIRouter, Request, Response

from control_api.reference.served_files import REVALIDATE, ServedFile, file_response, pack_file
from pipeline_contracts.errors import UNKNOWN_ADDRESS, NotFound
from web_dashboard.built_files import list_assets, read_asset, read_icon, read_page
from web_dashboard.page_paths import PAGE_SEGMENTS

router = APIRouter(include_in_schema=False)

# Allow nothing inline and nothing from other hosts. The policy allows scripts to set styles through properties.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# The names of assets change with their content.
_FOREVER = "public, max-age=31536000, immutable"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    # E-mails link to the page of an incident, whose address must not reach other hosts.
    "Referrer-Policy": "same-origin",
    # This includes reports that are shared by a link.
    "X-Robots-Tag": "noindex",
}


# Not coroutines: FastAPI runs these in threads, because they read files.
def read_dashboard(request: Request) -> Response:
    """Return the document of every page. Its script chooses the content by the address."""
    return file_response(request, _page(), {**_HEADERS, "Cache-Control": REVALIDATE})


for _path in ("/", *(f"/{segment}{rest}" for segment in PAGE_SEGMENTS for rest in ("", "/{rest:path}"))):
    router.add_api_route(_path, read_dashboard, methods=["GET"])


@router.get("/assets/{name}")
def read_asset_file(name: str, request: Request) -> Response:
    """Return a script or style sheet of the pages."""
    if name not in list_assets():
        raise NotFound(UNKNOWN_ADDRESS)
    return file_response(request, _asset(name), {**_HEADERS, "Cache-Control": _FOREVER})


@router.get("/icon.svg")
def read_icon_file(request: Request) -> Response:
    """Return the icon of the pages."""
    return file_response(request, _icon(), {**_HEADERS, "Cache-Control": REVALIDATE})


@lru_cache
def _page() -> ServedFile:
    return pack_file("text/html", read_page())


@lru_cache
def _icon() -> ServedFile:
    return pack_file("image/svg+xml", read_icon())


@cache
def _asset(name: str) -> ServedFile:
    return pack_file(list_assets()[name], read_asset(name))
