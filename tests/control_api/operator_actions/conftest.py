"""An installation that an operator's actions work on, on both databases."""

from collections.abc import AsyncIterator

import pytest

from control_api.database import Sessions
from tests.support.operated import Operated, make_operated


@pytest.fixture
async def operated(sessions: Sessions) -> AsyncIterator[Operated]:
    """The account "Acme" with people of every role, a project with one environment, and a repository."""
    yield await make_operated(sessions)
