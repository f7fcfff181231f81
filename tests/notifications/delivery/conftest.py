"""Accounts with notifications to deliver."""

import pytest

from control_domain.database.engine import Sessions
from tests.support.control_fixtures import engines_are_cheap, patience, sessions
from tests.support.deliveries import Deliveries, open_deliveries

__all__ = ["engines_are_cheap", "patience", "sessions"]


@pytest.fixture
async def deliveries(sessions: Sessions) -> Deliveries:
    return await open_deliveries(sessions)
