"""`GET /openapi.json`, and `GET /docs` with the files of its page. They need no credential."""

from fastapi import APIRouter, Request, Response

from control_api.reference.answer_file import FRESH, answer_file
from control_api.reference.served_files import document_file, page_file
from pipeline_contracts.errors import NotFound

router = APIRouter(include_in_schema=False)

_DAY = "public, max-age=86400"


# No coroutines: files are read, and the document is put together, in a thread.
@router.get("/openapi.json")
def read_document(request: Request) -> Response:
    """The OpenAPI document. Any page may read it: it says nothing about this host."""
    headers = {"Cache-Control": FRESH, "Access-Control-Allow-Origin": "*"}
    return answer_file(request, document_file(), headers)


@router.get("/docs")
def read_page(request: Request) -> Response:
    """The page that shows it."""
    file = page_file("index.html")
    assert file is not None
    return answer_file(request, file, {"Cache-Control": FRESH})


@router.get("/docs/{name}")
def read_page_file(name: str, request: Request) -> Response:
    """A script or style of the page."""
    file = page_file(name) if name != "index.html" else None
    if file is None:
        raise NotFound("There is nothing at this address.")
    return answer_file(request, file, {"Cache-Control": _DAY})
