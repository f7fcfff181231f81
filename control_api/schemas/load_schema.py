"""The schemas, out of the files beside this one.

They are of draft-07, which every editor knows, and say what it can say of a document. The readers are the authority:
`read_workflow`, `read_configuration`.
"""

from functools import lru_cache
from pathlib import Path

WORKFLOW = "workflow-1.json"
CONFIGURATION = "configuration-2.json"
NAMES = (WORKFLOW, CONFIGURATION)

_FOLDER = Path(__file__).parent


@lru_cache
def load_schema(name: str) -> bytes:
    """The schema of this name, one of `NAMES`, as its file has it: JSON in UTF-8. Raises `KeyError` for other names."""
    if name not in NAMES:
        raise KeyError(name)
    return (_FOLDER / name).read_bytes()
