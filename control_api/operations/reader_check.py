"""Checks repeatedly that the reader of an open stream may still read it."""

import asyncio
from collections.abc import Awaitable, Callable

from anyio import CancelScope
from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.authentication import keep_credential
from control_domain.accounts.operations import Caller
from control_domain.database.engine import Sessions
from pipeline_contracts.errors import Problem

CHECK_SECONDS = 15.0
"""How long, at most, a reader can continue to read after the token, the session or the right has ended."""

FindCaller = Callable[[Request, AsyncSession], Awaitable[Caller]]
"""Authenticates the caller of the request, and finds the object that the stream reads. Raises a `Problem` if the
caller may not read it."""


class ReaderCheck:
    """The checks of one stream. Its request was authorized when the stream began."""

    def __init__(self, request: Request, account_id: int, find_caller: FindCaller) -> None:
        # The response's headers have been sent by then, so the browser would not receive a new secret.
        keep_credential(request)
        self._request = request
        self._account_id = account_id
        self._find_caller = find_caller
        self.due_at = asyncio.get_running_loop().time() + CHECK_SECONDS
        """When the next check is due, in the time of the loop."""

    @property
    def is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self.due_at

    async def may_read(self) -> bool:
        """Check the caller if a check is due. Return False if the stream must end; the reader gets the reason when it
        reconnects."""
        if not self.is_due:
            return True
        self.due_at = asyncio.get_running_loop().time() + CHECK_SECONDS
        sessions: Sessions = self._request.app.state.sessions
        try:
            # Shielded from the cancellation when the reader leaves: it would leak a database connection that is just
            # being opened.
            with CancelScope(shield=True):
                async with sessions() as session:
                    caller = await self._find_caller(self._request, session)
                    await session.commit()
        except (Problem, SQLAlchemyError):
            return False
        # The person may have switched the session to another account.
        return caller.account.id == self._account_id
