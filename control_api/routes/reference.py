"""`GET /openapi.json`, and `GET /docs` with the files of its page, without authentication."""

from fastapi import APIRouter, Request, Response

from control_api.reference.served_files import REVALIDATE, document_file, file_response, page_file
from pipeline_contracts.errors import NotFound

router = APIRouter(prefix="/api", include_in_schema=False)

_DAY = "public, max-age=86400"


# Not coroutines: FastAPI runs these in threads, because they read files.
@router.get("/openapi.json")
def read_document(request: Request) -> Response:
    """Return the OpenAPI document. Every origin may read it, because it contains nothing about this host."""
    headers = {"Cache-Control": REVALIDATE, "Access-Control-Allow-Origin": "*"}
    return file_response(request, document_file(), headers)


@router.get("/docs")
def read_page(request: Request) -> Response:
    """Return the reference page."""
    file = page_file("index.html")
    assert file is not None
    return file_response(request, file, {"Cache-Control": REVALIDATE})


@router.get("/docs/{name}")
def read_page_file(name: str, request: Request) -> Response:
    """Return a script or style sheet of the reference page."""
    file = page_file(name) if name != "index.html" else None
    if file is None:
        raise NotFound("There is nothing at this address.")
    return file_response(request, file, {"Cache-Control": _DAY})
