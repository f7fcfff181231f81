"""`GET /schemas/workflow-1.json` and `GET /schemas/configuration-2.json`, without authentication, for editors."""

from functools import lru_cache

from fastapi import APIRouter, Request, Response

from control_api.reference.served_files import REVALIDATE, ServedFile, file_response, pack_file
from control_api.schemas.load_schema import CONFIGURATION, WORKFLOW, load_schema

router = APIRouter(prefix="/api", tags=["Deploy"])


# Not coroutines: FastAPI runs these in threads, because they read files.
@router.get(f"/schemas/{WORKFLOW}")
def read_workflow_schema(request: Request) -> Response:
    """Return the schema of workflow documents."""
    return _schema_response(request, WORKFLOW)


@router.get(f"/schemas/{CONFIGURATION}")
def read_configuration_schema(request: Request) -> Response:
    """Return the schema of configuration documents."""
    return _schema_response(request, CONFIGURATION)


def _schema_response(request: Request, name: str) -> Response:
    # Every origin may read schemas, because some editors are web pages. A schema contains nothing about this host.
    headers = {"Cache-Control": REVALIDATE, "Access-Control-Allow-Origin": "*"}
    return file_response(request, _pack_schema(name), headers)


@lru_cache
def _pack_schema(name: str) -> ServedFile:
    return pack_file("application/schema+json", load_schema(name))
