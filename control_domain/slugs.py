"""Names, and slugs: the short names of accounts, projects and environments in commands and documents."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from control_domain.refusals import Refused

MAX_NAME_LENGTH = 100
MAX_SLUG_LENGTH = 60
_SLUG = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
# Letters that no accent can be taken off.
_SPELT = str.maketrans({"æ": "ae", "ø": "o", "œ": "oe", "ß": "ss", "ð": "d", "þ": "th", "ł": "l", "đ": "d"})


def is_name(text: str) -> bool:
    """Whether something or somebody may be called so."""
    return 1 <= len(text) <= MAX_NAME_LENGTH and text.isprintable()


def read_name(wanted: Mapping[str, Any], name: str = "name") -> str:
    """What something or somebody is called. Raises `Refused`."""
    given = str(wanted.get(name) or "").strip()
    if not is_name(given):
        raise Refused(f"A name has 1 to {MAX_NAME_LENGTH} printable characters: give another.")
    return given


def read_slug(wanted: Mapping[str, Any], name: str) -> str:
    """`slug`, or the one that is made from the name where it is left out. Raises `Refused`."""
    given = str(wanted.get("slug") or "").strip()
    slug = given or make_slug(name)
    # Digits alone would be taken for a number.
    if _SLUG.fullmatch(slug) is None or len(slug) > MAX_SLUG_LENGTH or slug.isdigit():
        told = f"{given!r} is no slug" if given else f"No slug can be made from {name!r}"
        raise Refused(
            f"{told}: give one of 1 to {MAX_SLUG_LENGTH} of a-z, 0-9 and single hyphens, with a letter, like "
            "--slug my-shop."
        )
    return slug


def make_slug(name: str) -> str:
    """The name in a-z, 0-9 and hyphens; empty where nothing of it can be written so."""
    spelt = unicodedata.normalize("NFKD", name.lower().translate(_SPELT))
    words = re.findall("[a-z0-9]+", "".join(c for c in spelt if not unicodedata.combining(c)))
    return "-".join(words)[:MAX_SLUG_LENGTH].strip("-")
