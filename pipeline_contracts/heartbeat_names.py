"""Names of heartbeats in URLs and reports: the directory entry of a name, and the names that a ping may create."""

import hashlib
import re
from typing import Final

MAX_NAME_LENGTH: Final = 100
_CREATED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def digest_heartbeat_name(environment_id: str, name: str) -> bytes:
    """Return the 32 bytes under which the key directory has the heartbeat of this name in this environment.

    `environment_id` is the public ID. The digest is no secret: a caller names the heartbeat, and is authenticated by a
    key of the environment first.
    """
    # Public IDs have no NUL, so no two pairs give the same text. No credential has one either.
    return hashlib.sha256(f"heartbeat\0{environment_id}\0{name}".encode("utf-8", "surrogatepass")).digest()


def may_create_heartbeat(name: str) -> bool:
    """True if a ping may create a heartbeat of this name: 1 to 100 of A-Z, a-z, 0-9, `.`, `_` and `-`, the first one a
    letter or a digit. People may choose other names too."""
    return _CREATED.fullmatch(name) is not None
