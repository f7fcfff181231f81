"""A second person of a running `pharos up`, who approves what the first owner asks for."""

import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path

from control_domain.accounts.operations import create_api_token, create_person
from control_domain.accounts.roles import SCOPES
from control_domain.database.engine import open_engine, open_sessions
from control_domain.operators.accounts import resolve_account
from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, command_runner
from tests.support.platform_process import PlatformProcess


def as_second_owner(platform: PlatformProcess, folder: Path) -> RunCommand:
    """Make another owner of the only account; return a function that runs commands with a token of theirs."""
    token = asyncio.run(_create_owner(platform.data))
    url = platform.credentials["base_url"]
    return command_runner(folder, {**CLEAN_ENVIRONMENT, "PHAROS_URL": url, "PHAROS_TOKEN": token})


async def _create_owner(data: Path) -> str:
    engine = open_engine(f"sqlite+aiosqlite:///{data / 'control.sqlite'}")
    now, email = datetime.now(UTC), f"{uuid.uuid4().hex}@second.example"
    async with open_sessions(engine)() as session, session.begin():
        account = await resolve_account(session, None)
        owner = await create_person(session, account, "Second owner", email, "owner", now)
        token = await create_api_token(session, account, owner, "tests", SCOPES, now)
    await engine.dispose()
    return token
