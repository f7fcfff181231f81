"""The kinds and families of alerts that rules and silences may name."""

import difflib
import json
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from pipeline_contracts.alert_kinds import ALERT_KINDS
from pipeline_contracts.errors import FieldError, invalid_fields

TEST_KIND = "test.message"
FAMILIES: Sequence[str] = tuple(
    dict.fromkeys(kind.family for kind in ALERT_KINDS.values() if kind.name != TEST_KIND)
)
KINDS: Sequence[str] = tuple(name for name in ALERT_KINDS if name != TEST_KIND)
"""All kinds except tests, which only the tested channel receives."""
_CHOICES = (*FAMILIES, *KINDS)

Kinds = Annotated[
    list[Annotated[str, Meta(max_length=40)]],
    Meta(
        min_length=1,
        max_length=len(_CHOICES),
        description="Kinds, such as `heartbeat.down`, and families of kinds, such as `heartbeat`.",
        examples=[["heartbeat.down", "deployment"]],
    ),
]


def check_kinds(kinds: Sequence[str] | None) -> list[str] | None:
    """Return the kinds and families, each once and in the order of the catalogue. Raises `InvalidInput`."""
    if kinds is None:
        return None
    errors = []
    for position, kind in enumerate(kinds):
        if kind not in _CHOICES:
            nearest = difflib.get_close_matches(kind, _CHOICES, n=1)
            advice = f"; do you mean {nearest[0]}?" if nearest else ""
            errors.append(
                FieldError(f"kinds[{position}]", f"is neither a kind of alert nor a family of kinds{advice}")
            )
    if errors:
        raise invalid_fields(errors)
    return [kind for kind in _CHOICES if kind in kinds]


def write_kinds(kinds: Sequence[str] | None) -> str | None:
    """Return the kinds as the value of a column; null stands for all kinds."""
    return None if kinds is None else json.dumps(list(kinds))


def read_kinds(text: str | None) -> list[str] | None:
    """Return the kinds of a column."""
    if text is None:
        return None
    kinds: list[str] = json.loads(text)
    return kinds
