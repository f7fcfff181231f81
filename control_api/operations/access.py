"""The caller of an operation, and the object that its path names.

An operation declares both with one parameter, whose dependency checks in this order: token, scope, object, right.

    At_Project = Annotated[At[Project], at(find_project, "project", "projects:write", Right.MANAGE)]

    @operations.patch("/v1/projects/{project}")
    async def update_project(at: At_Project, body: …) -> ProjectDocument: …
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Generic, TypeVar

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.authentication import (
    actor_of,
    forget_session_cookie,
    session_caller,
    signed_in,
    unknown_actor,
)
from control_api.http.same_origin import refuse_other_sites
from control_api.operations.reader_check import ReaderCheck
from control_api.operations.versions import check_if_match
from control_api.request_session import Session, end_transaction
from control_api.requests.json_body import check_after_body
from control_domain.accounts.operations import Caller, lock_account_row
from control_domain.accounts.rights import require_account_right
from control_domain.accounts.roles import AccountRight, Right
from control_domain.audit import Actor
from control_domain.database.public_ids import parse_number
from control_domain.paging import Cursors
from control_domain.published_keys import ChangedKeys, publish_changes
from control_domain.sealing import SealingKeys
from control_domain.storage.disk_reserve import make_space_on_full_disk
from control_domain.tables.accounts import Account
from control_domain.tables.sign_in import SignInSession
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory

T = TypeVar("T")
B = TypeVar("B")

Find = Callable[[AsyncSession, Caller, str, Right], Awaitable[T]]
"""Returns the object of the caller's account with this ID. Raises `NotFound` and `DeployNotAllowed`."""
FindInAccount = Callable[[AsyncSession, Caller, str], Awaitable[T]]
"""Returns the object of the caller's account with this ID. Raises `NotFound`."""


@dataclass(slots=True)
class At(Generic[T]):
    """A request of an operation: its caller and its object."""

    request: Request
    session: AsyncSession
    caller: Caller
    found: T
    """The object that the path names, or the account if the path names no object."""
    now: datetime
    find_again: "Callable[[Request, AsyncSession], Awaitable[At[T]]]"
    """Authenticates the caller and finds the object again, as at the beginning of the request."""
    changed_keys: ChangedKeys = field(default_factory=ChangedKeys)
    """The keys to publish to the edges after the commit. If the edges cannot be informed, the response has a
    `warning`."""

    @property
    def account(self) -> Account:
        return self.caller.account

    @property
    def actor(self) -> Actor:
        """The caller as an actor for audit entries."""
        return actor_of(self.request, self.caller)

    @property
    def sealing_keys(self) -> SealingKeys:
        keys: SealingKeys = self.request.app.state.variable_keys
        return keys

    @property
    def directory(self) -> KeyDirectory:
        directory: KeyDirectory = self.request.app.state.key_directory
        return directory

    @property
    def column_store(self) -> ColumnStore:
        """The column store for reads that people wait for."""
        store: ColumnStore = self.request.app.state.report_store
        return store

    def make_reader_check(self) -> ReaderCheck:
        """Return the checks of the stream that is the response to this request."""

        async def find_caller(request: Request, session: AsyncSession) -> Caller:
            return (await self.find_again(request, session)).caller

        return ReaderCheck(self.request, self.account.id, find_caller)

    def cursors(self, name: str) -> Cursors:
        """Return the cursors of the list `name`, which only this account can use."""
        return Cursors(self.request.app.state.cursor_key, self.account.public_id, name)

    def number(self, parameter: str) -> int | None:
        """Return the number in the path, or None if the parameter cannot be the number of a row."""
        return parse_number(self.request.path_params[parameter])

    def text(self, parameter: str) -> str:
        """Return a parameter of the path."""
        return str(self.request.path_params[parameter])

    def check_if_match(self, settings: Mapping[str, Any]) -> None:
        """Raise `PreconditionFailed` if `If-Match` names other settings than these, which are locked."""
        check_if_match(self.request, settings)

    def publish_after_commit(self, digests: Sequence[bytes], sites: Sequence[int] = ()) -> None:
        """Publish these keys to the edges after the commit. `sites`: the IDs of the sites whose trackers they are."""
        self.changed_keys.add(ChangedKeys([*digests], [*sites]))

    def publish_names_after_commit(self, environment_id: str, *names: str) -> None:
        """Publish that heartbeats of the environment, named by its public ID, got or lost these names."""
        self.changed_keys.add(ChangedKeys(names=[(environment_id, name) for name in names]))

    def revoke_after_commit(self, digests: Sequence[bytes]) -> None:
        """Revoke these keys after the commit. The edges accept none of them 5 s later."""
        self.changed_keys.add(ChangedKeys(revoked=[*digests]))

    async def publish_changes(self) -> None:
        """Inform the edges of the keys that were changed. Raises `StorageUnavailable` and the database's errors."""
        if self.changed_keys:
            sessions = self.request.app.state.sessions
            await publish_changes(sessions, self.directory, self.changed_keys, self.now)

    async def end_transaction(self) -> None:
        """Commit before a slow operation; loaded objects stay readable."""
        await end_transaction(self.session)

    async def check_again(self) -> None:
        """Check token, scope, object and right again after a slow operation.

        A body may take 30 s, in which the caller may have been removed or demoted, or the token revoked.
        """
        present = await self.find_again(self.request, self.session)
        self.caller, self.found, self.now = present.caller, present.found, present.now

    async def read_body(self, read: Callable[[Request], Awaitable[B]]) -> B:
        """Return the result of `read` for the body, without an open transaction while the body arrives."""
        await self.end_transaction()
        return await read(self.request)

    async def lock_rights(self) -> None:
        """Lock the account with its people and roles until the end of the transaction, and check the caller again.

        Call this for a change that gives somebody access: the caller cannot lose the right between this check and the
        commit.
        """
        await lock_account_row(self.session, self.account)
        await self.check_again()


@dataclass(frozen=True, slots=True)
class Access:
    """What an operation requires, for the reference and for the tests of rights."""

    scope: str
    right: IntEnum
    """A `Right` in the project of the object, or an `AccountRight`."""
    needs_session: bool = False
    """True if only a person who is signed in may use the operation; it has no scope."""


ACCESS_ATTRIBUTE = "pharos_access"
"""The attribute of a dependency that holds its `Access`."""


def at(find: Find[T], parameter: str, scope: str, right: Right) -> Any:
    """Return the dependency that yields `At` the object that the path's `parameter` names.

    401 without a valid token or session, 403 without the scope or the right, 404 for an object of another account.
    """

    async def find_object(session: AsyncSession, caller: Caller, request: Request) -> T:
        return await find(session, caller, str(request.path_params[parameter]), right)

    return _yield_at(find_object, scope, right)


def at_account(scope: str, right: AccountRight = AccountRight.READ) -> Any:
    """Return the dependency that yields `At` the account of the token: 403 without the scope or the right."""

    async def find_account(session: AsyncSession, caller: Caller, request: Request) -> Account:
        require_account_right(caller, right)
        return caller.account

    return _yield_at(find_account, scope, right)


def at_account_object(
    find: FindInAccount[T], parameter: str, scope: str, right: AccountRight = AccountRight.READ
) -> Any:
    """Return the dependency that yields `At` an object of the account itself, such as a person.

    401 without a valid token or session, 403 without the scope or the right, 404 for an object of another account.
    """

    async def find_object(session: AsyncSession, caller: Caller, request: Request) -> T:
        require_account_right(caller, right)
        return await find(session, caller, str(request.path_params[parameter]))

    return _yield_at(find_object, scope, right)


def _yield_at(
    find: Callable[[AsyncSession, Caller, Request], Awaitable[T]], scope: str, right: IntEnum
) -> Any:
    authenticate = signed_in(scope)

    async def find_at(request: Request, session: AsyncSession) -> At[T]:
        caller = await authenticate(request, session)
        found = await find(session, caller, request)
        return At(request, session, caller, found, datetime.now(UTC), find_at)

    async def yield_at(request: Request, session: Session) -> At[T]:
        found = await find_at(request, session)
        check_after_body(request, found.check_again)
        return found

    setattr(yield_at, ACCESS_ATTRIBUTE, Access(scope, right))
    return Depends(yield_at)


def at_session(*, ends: bool = False) -> Any:
    """Return the dependency that yields `At` the session of the request: 401 without one, 403 for an API token.

    `ends`: the operation ends the session. The response removes its cookie, even if the request is refused.
    """

    async def find_at(request: Request, session: AsyncSession) -> At[SignInSession]:
        caller, found = await session_caller(request, session)
        return At(request, session, caller, found, datetime.now(UTC), find_at)

    async def yield_at(request: Request, session: Session) -> At[SignInSession]:
        if ends:
            forget_session_cookie(request)
        found = await find_at(request, session)
        check_after_body(request, found.check_again)
        return found

    setattr(yield_at, ACCESS_ATTRIBUTE, Access("", AccountRight.READ, needs_session=True))
    return Depends(yield_at)


@dataclass(frozen=True, slots=True)
class WithoutToken:
    """A request of an operation that needs no API token, because its body has a secret."""

    request: Request
    session: AsyncSession
    actor: Actor
    """The address of the request, as an actor for audit entries."""
    now: datetime


def without_token() -> Any:
    """Return the dependency that yields `WithoutToken`. Only the limits of the client's address apply."""

    async def read(request: Request, session: Session) -> WithoutToken:
        return WithoutToken(request, session, unknown_actor(request), datetime.now(UTC))

    return Depends(read)


def sign_in_page() -> Any:
    """Return the dependency that yields `WithoutToken` for a request that signs a person in: 403 if a page of another
    origin has sent it."""

    async def read(request: Request, session: Session) -> WithoutToken:
        refuse_other_sites(request)
        # Release the reserve of a full disk, so that the session can be recorded: the person may want to free space.
        await asyncio.to_thread(make_space_on_full_disk, request.app.state.storage_access.data_folder)
        return WithoutToken(request, session, unknown_actor(request), datetime.now(UTC))

    return Depends(read)
