"""`GET /openapi.json`, and `GET /docs` with the files of its page. They need no credential."""

from fastapi import APIRouter, Request, Response

from control_api.reference.served_files import ServedFile, document_file, page_file
from pipeline_contracts.errors import NotFound

router = APIRouter(include_in_schema=False)

# Styles and scripts are files of this origin. `data:`: the small images inside of Swagger UI's style sheet.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Asked for anew each time; an answer without a body if it is the same still.
_FRESH = "no-cache"
_DAY = "public, max-age=86400"


# No coroutines: files are read, and the document is put together, in a thread.
@router.get("/openapi.json")
def read_document(request: Request) -> Response:
    """The OpenAPI document. Any page may read it: it says nothing about this host."""
    return _answer(request, document_file(), {"Cache-Control": _FRESH, "Access-Control-Allow-Origin": "*"})


@router.get("/docs")
def read_page(request: Request) -> Response:
    """The page that shows it."""
    return _answer(request, page_file("index.html"), {"Cache-Control": _FRESH})


@router.get("/docs/{name}")
def read_page_file(name: str, request: Request) -> Response:
    """A script or style of the page."""
    file = page_file(name) if name != "index.html" else None
    if file is None:
        raise NotFound("There is nothing at this address.")
    return _answer(request, file, {"Cache-Control": _DAY})


def _answer(request: Request, file: ServedFile | None, headers: dict[str, str]) -> Response:
    assert file is not None
    coded = _takes_gzip(request.headers.get("accept-encoding", ""))
    # Each coding has a tag of its own (RFC 9110, 8.8.3.3).
    etag = f'"{file.digest}{"-gzip" if coded else ""}"'
    headers |= {
        "ETag": etag,
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or etag in [one.strip().removeprefix("W/") for one in known.split(",")]:
        return Response(status_code=304, headers=headers)
    if coded:
        headers["Content-Encoding"] = "gzip"
    return Response(file.gzipped if coded else file.plain(), headers=headers, media_type=file.content_type)


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
