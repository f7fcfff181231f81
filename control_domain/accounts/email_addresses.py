"""E-mail addresses, by which people are identified."""

import re

from pipeline_contracts.errors import invalid_field

MAX_LENGTH = 254
# Only a message would prove an address; this distinguishes one from other text.
_ADDRESS = re.compile(r"[^@\s<>,;:\"]+@[^@\s<>,;:\"]+")


def check_email(text: str, field: str) -> str:
    """Return the address in lower case. Raises `InvalidInput`."""
    email = text.strip().lower()
    if _ADDRESS.fullmatch(email) is None or len(email) > MAX_LENGTH or not email.isprintable():
        raise invalid_field(field, "must be an e-mail address like ada@example.com")
    return email
