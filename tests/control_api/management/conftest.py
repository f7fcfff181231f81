"""The management API on both databases. Each response is checked against the OpenAPI document."""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from sqlalchemy import select

from control_api.management.all_operations import ROUTERS
from control_api.operations.router import Operation
from control_api.reference.load_document import load_document
from control_domain.tables.audit import AuditEntry
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.deploy_platform import (
    ALL_SCOPES,
    Platform,
    Prepared,
    Response,
    add_monitors,
    open_platform,
)
from tests.support.notification_rows import add_notifications
from tests.support.prepared_platform import prepared

__all__ = ["api", "monitored", "prepared", "shared_api"]


@dataclass(slots=True)
class Api:
    """The platform of a test, called as people of `Acme`."""

    platform: Platform

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        by: str = "owner",
        scopes: frozenset[str] = ALL_SCOPES,
        headers: Mapping[str, str | None] | None = None,
    ) -> Response:
        """Call an operation as this person (`deploy_platform.PEOPLE`), and check the response against its schema."""
        token = self.platform.acme.token(by, scopes)
        response = await self.platform.call(method, path, body, token=token, headers=headers)
        check_response(method, path, response)
        return response

    async def read(self, path: str, *, by: str = "owner") -> Any:
        """Return the `data` of a read that succeeds."""
        response = await self.call("GET", path, by=by)
        assert response.status == 200, response.body
        return response.data

    async def read_all(self, path: str, limit: int = 2) -> list[Any]:
        """Return the items of all pages of a list."""
        items: list[Any] = []
        query = f"{'&' if '?' in path else '?'}limit={limit}"
        cursor = ""
        while True:
            response = await self.call("GET", f"{path}{query}{cursor}")
            assert response.status == 200, response.body
            document = response.json()
            items += document["data"]
            if document["next_cursor"] is None:
                return items
            cursor = f"&cursor={document['next_cursor']}"

    async def audit(self, limit: int = 10) -> list[tuple[str, str]]:
        """Return action and subject of the newest audit entries, the newest first."""
        query = select(AuditEntry.action, AuditEntry.subject).order_by(AuditEntry.id.desc()).limit(limit)
        async with self.platform.sessions() as session:
            return [(action, subject) for action, subject in await session.execute(query)]

    async def expect(
        self, problem: tuple[int, str], method: str, path: str, body: Any = None, **options: Any
    ) -> Response:
        """Expect a refusal with this status and type, and check that the database is unchanged."""
        before = await self.platform.contents()
        response = await self.call(method, path, body, **options)
        assert response.problem == problem, response.body
        assert await self.platform.contents() == before
        return response


@pytest.fixture
async def api(prepared: Prepared, tmp_path: Path, column_store: ChdbColumnStore) -> AsyncIterator[Api]:
    """Yield a platform for this test alone."""
    async with open_platform(prepared, tmp_path, column_store) as platform:
        yield Api(platform)


@pytest.fixture
async def monitored(api: Api) -> Api:
    """Return a platform with monitors, for this test alone."""
    await add_monitors(api.platform)
    await add_notifications(api.platform)
    return api


@pytest.fixture(scope="module")
async def shared_api(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory, column_store: ChdbColumnStore
) -> AsyncIterator[Api]:
    """Yield one platform with monitors, for all tests of a file that change nothing."""
    async with open_platform(prepared, tmp_path_factory.mktemp("shared"), column_store) as platform:
        await add_monitors(platform)
        await add_notifications(platform)
        yield Api(platform)


def check_response(method: str, path: str, response: Response) -> None:
    """Check that the document describes the response: its status, and the schema of its body."""
    operation = find_operation(method, path)
    if operation is None:
        return
    described = load_document()["paths"][operation.path][method.lower()]["responses"]
    assert str(response.status) in described, (method, path, response.status, response.body)
    resource = f"#/paths/{_pointer(operation.path)}/{method.lower()}/responses/{response.status}"
    entry = described[str(response.status)]
    if "$ref" in entry:
        resource = entry["$ref"]
    media_type = response.headers["Content-Type"].partition(";")[0]
    schema = {"$ref": f"urn:pharos{resource}/content/{_pointer(media_type)}/schema"}
    jsonschema.Draft202012Validator(schema, registry=_registry()).validate(response.json())


def _pointer(text: str) -> str:
    return text.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


@cache
def _registry() -> Any:
    return Registry().with_resource("urn:pharos", DRAFT202012.create_resource(load_document()))


def find_operation(method: str, path: str) -> Operation | None:
    """Return the operation at this address, or None if the management API has none there."""
    bare = path.partition("?")[0]
    for router in ROUTERS:
        for operation in router.operations:
            pattern = re.sub(r"\{\w+\}", "[^/]+", operation.path)
            if operation.method == method and re.fullmatch(pattern, bare):
                return operation
    return None
