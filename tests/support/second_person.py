"""More people of the only account of a running `pharos up`: a second person approves the requests of the first
owner."""

import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path

from control_domain.accounts.operations import create_api_token, create_person
from control_domain.accounts.roles import SCOPES, AccountRole
from control_domain.database.engine import open_engine, open_sessions
from control_domain.operators.accounts import resolve_account
from tests.support.commands import CLEAN_ENVIRONMENT, RunCommand, command_runner
from tests.support.platform_process import PlatformProcess


def as_second_owner(platform: PlatformProcess, folder: Path) -> RunCommand:
    """Make another owner of the only account; return a function that runs commands with a token of theirs."""
    return as_new_person(platform, folder, f"{uuid.uuid4().hex}@second.example", "owner")


def as_new_person(
    platform: PlatformProcess, folder: Path, email: str, role: AccountRole = "member"
) -> RunCommand:
    """Add a person to the only account; return a function that runs commands with a token of theirs."""
    token = asyncio.run(_add_person(platform.data, email, role))
    url = platform.credentials["base_url"]
    return command_runner(folder, {**CLEAN_ENVIRONMENT, "PHAROS_URL": url, "PHAROS_TOKEN": token})


async def _add_person(data: Path, email: str, role: AccountRole) -> str:
    """Return a token of the new person with all scopes."""
    engine = open_engine(f"sqlite+aiosqlite:///{data / 'control.sqlite'}")
    now, name = datetime.now(UTC), f"Second {role}"
    async with open_sessions(engine)() as session, session.begin():
        account = await resolve_account(session, None)
        person = await create_person(session, account, name, email, role, now)
        token = await create_api_token(session, account, person, "tests", SCOPES, now)
    await engine.dispose()
    return token
