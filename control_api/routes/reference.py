"""`GET /openapi.json`, and `GET /docs`, which leads to the pages of the reference, without authentication."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from control_api.reference.operation_pages import INDEX
from control_api.reference.served_files import REVALIDATE, document_file, file_response
from web_dashboard.documentation.site import PREFIX

router = APIRouter(prefix="/api", include_in_schema=False)


# Not a coroutine: FastAPI runs it in a thread, because it reads files.
@router.get("/openapi.json")
def read_document(request: Request) -> Response:
    """Return the OpenAPI document. Every origin may read it, because it contains nothing about this host."""
    headers = {"Cache-Control": REVALIDATE, "Access-Control-Allow-Origin": "*"}
    return file_response(request, document_file(), headers)


@router.get("/docs")
async def find_pages() -> RedirectResponse:
    """Redirect to the page of the documentation that lists every operation."""
    return RedirectResponse(f"{PREFIX}/{INDEX}")
