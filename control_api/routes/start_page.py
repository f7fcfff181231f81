"""`GET /`, without authentication."""

import base64
import hashlib
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from control_api.reference.served_files import REVALIDATE, ServedFile, file_response, pack_file

router = APIRouter(include_in_schema=False)

_PAGE = Path(__file__).with_name("start_page.html")


@router.get("/")
def read_start_page(request: Request) -> Response:
    """The start page: links to the reference and to health, and the first commands."""
    file, policy = _packed_page()
    return file_response(request, file, {"Cache-Control": REVALIDATE, "Content-Security-Policy": policy})


@lru_cache
def _packed_page() -> tuple[ServedFile, str]:
    """Return the page, and a policy that allows only its own style sheet."""
    page = _PAGE.read_bytes()
    style = page.partition(b"<style>")[2].partition(b"</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return pack_file("text/html", page), policy
