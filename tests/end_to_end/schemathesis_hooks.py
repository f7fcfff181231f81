"""What a schema cannot say, put right in requests before they are sent. No answer is looked at here, and no check."""

import itertools
import json
import re
import uuid
from typing import Any

import schemathesis

_KEY = re.compile(r"[ -~]{1,255}")
_numbers = itertools.count(1)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Idempotency keys are new with each request. Whole numbers have no decimal point, where JSON Schema takes 19.0
    for an integer. And a text that has to hold JSON holds it: `contentSchema` is for readers alone."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and _KEY.fullmatch(key):
        case.headers["Idempotency-Key"] = f"{case.operation.label} {next(_numbers)}"
    if case.media_type == "text/plain" and case.meta is not None and case.meta.generation.mode.is_positive:
        event = {"id": str(uuid.UUID(int=next(_numbers))), "type": "pageview", "path": str(case.body)[:2048]}
        case.body = json.dumps({"events": [event]})
    # A body that is set is judged anew, and one that is not there would count as broken.
    if isinstance(case.body, dict | list):
        case.body = _whole(case.body)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
