"""The ID of each request, which answers, logs and the audit log carry."""

import itertools
import re
import secrets

_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
# Unique to this process and counted from there: as unlike any other as a random one, for a tenth of the cost.
_PREFIX = secrets.token_hex(8)
_numbers = itertools.count(1)


def request_id(given: str | None) -> str:
    """The caller's request ID if it is sane (1 to 128 plain characters), else a new one."""
    if given is not None and _SANE.fullmatch(given):
        return given
    return f"{_PREFIX}{next(_numbers):08x}"
