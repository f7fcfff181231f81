"""Names, reasons, and slugs: the short names of accounts, projects and environments in URLs and documents."""

import re
import unicodedata

from pipeline_contracts.errors import invalid_field

MAX_NAME_LENGTH = 100
MAX_SLUG_LENGTH = 60
MAX_REASON_LENGTH = 500
_SLUG = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
# Letters that do not decompose into a base letter and an accent.
_TRANSLITERATION = str.maketrans(
    {"æ": "ae", "ø": "o", "œ": "oe", "ß": "ss", "ð": "d", "þ": "th", "ł": "l", "đ": "d"}
)


def is_name(text: str) -> bool:
    """Return True if the text is a valid name."""
    return 1 <= len(text) <= MAX_NAME_LENGTH and text.isprintable()


def check_name(name: str, field: str = "name") -> str:
    """Return the name without spaces around it. Raises `InvalidInput`."""
    stripped = name.strip()
    if not is_name(stripped):
        raise invalid_field(field, f"must be 1 to {MAX_NAME_LENGTH} printable characters")
    return stripped


def choose_slug(slug: str | None, name: str) -> str:
    """Return the slug, or if it is None, a slug made from the name. Raises `InvalidInput`."""
    chosen = make_slug(name) if slug is None else slug
    if not is_slug(chosen):
        rule = f"1 to {MAX_SLUG_LENGTH} of a-z, 0-9 and single hyphens, with at least one letter"
        if slug is None:
            raise invalid_field(
                "slug", f"is required, because none can be made from the name; must be {rule}"
            )
        raise invalid_field("slug", f"must be {rule}")
    return chosen


def check_reason(reason: str, field: str = "reason") -> str:
    """Return the reason for others to read, without spaces around it. Raises `InvalidInput`."""
    stripped = reason.strip()
    if not 1 <= len(stripped) <= MAX_REASON_LENGTH or not stripped.isprintable():
        raise invalid_field(field, f"must be 1 to {MAX_REASON_LENGTH} printable characters")
    return stripped


def is_slug(text: str) -> bool:
    """Return True if the text is a valid slug. A slug must have a letter, because digits alone would be read as a
    numeric ID."""
    return _SLUG.fullmatch(text) is not None and len(text) <= MAX_SLUG_LENGTH and not text.isdigit()


def make_slug(name: str) -> str:
    """Return the name in a-z, 0-9 and hyphens; empty if no character of it can be written so."""
    spelled = unicodedata.normalize("NFKD", name.lower().translate(_TRANSLITERATION))
    words = re.findall("[a-z0-9]+", "".join(c for c in spelled if not unicodedata.combining(c)))
    return "-".join(words)[:MAX_SLUG_LENGTH].strip("-")
