"""`GET /schemas/workflow-1.json` and `GET /schemas/configuration-2.json`: editors ask for them without a credential."""

from functools import lru_cache

from fastapi import APIRouter, Request, Response

from control_api.reference.answer_file import FRESH, answer_file
from control_api.reference.served_files import ServedFile, pack_file
from control_api.schemas.load_schema import CONFIGURATION, WORKFLOW, load_schema

router = APIRouter(tags=["Deploy"])


# No coroutines: files are read, in a thread.
@router.get(f"/schemas/{WORKFLOW}")
def read_workflow_schema(request: Request) -> Response:
    """The schema of workflow documents."""
    return _answer(request, WORKFLOW)


@router.get(f"/schemas/{CONFIGURATION}")
def read_configuration_schema(request: Request) -> Response:
    """The schema of configuration documents."""
    return _answer(request, CONFIGURATION)


def _answer(request: Request, name: str) -> Response:
    # Editors run in pages, too. A schema says nothing about this host.
    headers = {"Cache-Control": FRESH, "Access-Control-Allow-Origin": "*"}
    return answer_file(request, _pack_schema(name), headers)


@lru_cache
def _pack_schema(name: str) -> ServedFile:
    return pack_file("application/schema+json", load_schema(name))
