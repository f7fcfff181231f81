"""The engines under contract."""

from collections.abc import Iterator

import pytest

from control_domain.database import engine as database
from control_domain.database import postgres as control_postgres
from storage_backends.event_log import kafka_consumer
from storage_backends.monitor_states import postgres, sqlite

# Seconds: longer than any of these tests takes on a loaded machine.
_PATIENCE = 120


@pytest.fixture(scope="module", autouse=True)
def lengthen_timeouts() -> Iterator[None]:
    """Lengthen the timeouts: an engine on a loaded machine must not look unavailable. Other tests cover
    unavailability."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_BUSY_SECONDS", _PATIENCE)
        patch.setattr(sqlite, "_BUSY_SECONDS", _PATIENCE)
        for module in (control_postgres, postgres):
            for name in ("_CONNECT_SECONDS", "_STATEMENT_SECONDS", "_CALL_SECONDS"):
                patch.setattr(module, name, _PATIENCE)
        for name in ("_REQUEST_SECONDS", "_COMMIT_SECONDS", "_CLOSE_SECONDS"):
            patch.setattr(kafka_consumer, name, _PATIENCE)
        yield
