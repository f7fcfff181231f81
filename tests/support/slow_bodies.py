"""Requests whose body arrives in two parts, with a change between them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from sqlalchemy import select

from control_domain.tables.accounts import ApiToken
from pipeline_contracts.credentials import digest_credential
from tests.support.deploy_platform import Platform, Response


async def send_slowly(
    platform: Platform,
    method: str,
    path: str,
    token: str,
    meanwhile: Callable[[], Awaitable[object]],
    rest: bytes = b"}",
) -> Response:
    """Send `{`, wait until the request is authenticated, call `meanwhile`, and send the rest of the body.

    The token must not have been used before: its first use shows that the request is authenticated.
    """
    used = select(ApiToken.last_used_at).where(ApiToken.digest == digest_credential(token))

    async def is_authenticated() -> bool:
        async with platform.sessions() as session:
            return (await session.execute(used)).scalar_one() is not None

    async def send() -> AsyncIterator[bytes]:
        yield b"{"
        async with asyncio.timeout(60):
            while not await is_authenticated():
                await asyncio.sleep(0.002)
        await meanwhile()
        yield rest

    headers = {"Content-Type": "application/json"}
    return await platform.call(method, path, send(), token=token, headers=headers)
