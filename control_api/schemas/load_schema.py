"""Loads the JSON schemas (draft-07, which every editor supports) of workflow and configuration documents.

The schemas express the rules that draft-07 can express. `read_workflow` and `read_configuration` are authoritative.
"""

from functools import lru_cache
from pathlib import Path

WORKFLOW = "workflow-1.json"
CONFIGURATION = "configuration-2.json"
NAMES = (WORKFLOW, CONFIGURATION)

_FOLDER = Path(__file__).parent


@lru_cache
def load_schema(name: str) -> bytes:
    """Return the file of a schema, JSON in UTF-8. Raises `KeyError` for a name that is not in `NAMES`."""
    if name not in NAMES:
        raise KeyError(name)
    return (_FOLDER / name).read_bytes()
