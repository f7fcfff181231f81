"""Names of heartbeats in URLs and reports: the directory entry of a name, and the heartbeats that pings create."""

import hashlib
import re
from typing import Final

from pipeline_contracts.rate_limits import RateLimit

MAX_NAME_LENGTH: Final = 100
CREATED_PERIOD_SECONDS: Final = 86_400
"""Schedule of a heartbeat that a ping creates, and the limits below: those of Healthchecks.io."""
CREATED_GRACE_SECONDS: Final = 3600
CREATED_MAX_RUNTIME_SECONDS: Final = 3600
CREATED_RATE: Final = RateLimit(0.1, 100)
"""Heartbeats a second that pings may create in a project, and at once."""
MAX_CREATED_IN: Final = 1000
"""Pings create no heartbeat in an environment that has so many."""
MAX_CREATED_MEANWHILE: Final = 2 * MAX_CREATED_IN
"""Of an environment. Edges learn within seconds that it has `MAX_CREATED_IN`; until then, created ones count too."""
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
