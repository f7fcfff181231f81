"""JSON responses that FastAPI does not look at: it would serialize a plain document several times as slowly."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Response


def json_response(document: Mapping[str, Any], status: int = 200) -> Response:
    """Return the document as it is."""
    return Response(orjson.dumps(document), status, media_type="application/json")
