"""Routes of typed operations. A route reads its inputs through dependencies and returns a document; this layer adds
the envelope, `ETag`, `Idempotency-Key` and the operation's entry in the OpenAPI document."""

import hmac
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec
import orjson
from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from control_api.idempotency import RouteResponse, respond_idempotently
from control_api.operations.access import ACCESS_ATTRIBUTE, Access, At
from control_api.operations.bodies import BODY_ATTRIBUTE
from control_api.operations.pages import PageOf
from control_api.operations.queries import QUERY_ATTRIBUTE, NoQuery, read_query
from control_api.operations.versions import check_if_match, make_etag, refuse_if_match
from control_api.request_session import end_transaction
from control_domain.keys import describe_uninformed_edges
from pipeline_contracts.errors import Problem, StorageUnavailable

logger = logging.getLogger(__name__)

D = TypeVar("D")
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])

_CONVERTER = re.compile(r":\w+}")

SettingsOf = Callable[[Any], Mapping[str, Any]]
"""Returns the part of a response document that `ETag` and `If-Match` identify."""


@dataclass(frozen=True, slots=True)
class Accepted(Generic[D]):
    """The response 202 of a change that waits for a second person. In other environments, the same change is made at
    once.

    Such a handler returns `SomeDocument | Accepted[OtherDocument]`.
    """

    document: D


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, as used by the OpenAPI document and the generated tests."""

    method: str
    path: str
    """Below `/api`."""
    tag: str
    handler: Callable[..., Any]
    access: Access | None
    """None if the operation needs no API token."""
    body: type[msgspec.Struct] | None
    is_body_optional: bool
    query: type[msgspec.Struct]
    answer: Any
    """The type that the handler returns: a document, a list of documents, or `PageOf` documents."""
    status: int
    problems: Sequence[type[Problem]]
    """The problems that it raises in addition to those of every operation."""
    has_etag: bool
    checks_if_match: bool
    """False if `If-Match` is refused because the object has no `ETag`."""
    streams: bool
    """True if the operation also answers `text/event-stream`."""
    accepted: Any = None
    """The type of the document of a 202, in addition to `answer`; None without a 202."""
    takes_idempotency_key: bool = False

    @property
    def id(self) -> str:
        return self.handler.__name__


class OperationRouter:
    """The operations of one module of routes."""

    def __init__(self, tag: str) -> None:
        self.router = APIRouter(prefix="/api")
        self.operations: list[Operation] = []
        self._tag = tag

    def get(
        self,
        path: str,
        *,
        etag: SettingsOf | None = None,
        problems: Sequence[type[Problem]] = (),
        streams: bool = False,
        answer: Any = None,
    ) -> Callable[[H], H]:
        """Register a read. If the handler returns a `Response`, `answer` is the type of its document."""
        return self._register("GET", path, 200, problems, etag=etag, streams=streams, answer=answer)

    def post(
        self,
        path: str,
        *,
        status: int = 200,
        etag: SettingsOf | None = None,
        problems: Sequence[type[Problem]] = (),
        secret: bool = False,
        idempotency: bool = True,
    ) -> Callable[[H], H]:
        """Register an operation that `Idempotency-Key` protects, unless it needs no API token. `secret`: its response
        contains a secret and is stored sealed. `idempotency` False: the handler commits more than once, and refuses a
        repeated request itself."""
        return self._register(
            "POST", path, status, problems, etag=etag, secret=secret, idempotency=idempotency
        )

    def put(
        self,
        path: str,
        *,
        status: int = 200,
        etag: SettingsOf | None = None,
        problems: Sequence[type[Problem]] = (),
    ) -> Callable[[H], H]:
        return self._register("PUT", path, status, problems, etag=etag)

    def patch(
        self,
        path: str,
        *,
        status: int = 200,
        etag: SettingsOf | None = None,
        problems: Sequence[type[Problem]] = (),
    ) -> Callable[[H], H]:
        """Register a change of some fields. With `etag`, the handler calls `at.check_if_match`."""
        return self._register("PATCH", path, status, problems, etag=etag)

    def delete(
        self,
        path: str,
        *,
        status: int = 200,
        problems: Sequence[type[Problem]] = (),
        checks_if_match: bool = False,
    ) -> Callable[[H], H]:
        """Register a removal. With `checks_if_match`, the read of the path has an `ETag`, and the handler calls
        `at.check_if_match`."""
        return self._register("DELETE", path, status, problems, checks_if_match=checks_if_match)

    def _register(
        self,
        method: str,
        path: str,
        status: int,
        problems: Sequence[type[Problem]],
        *,
        etag: SettingsOf | None = None,
        secret: bool = False,
        streams: bool = False,
        answer: Any = None,
        checks_if_match: bool = False,
        idempotency: bool = True,
    ) -> Callable[[H], H]:
        def register(handler: H) -> H:
            access, body, query = _read_parameters(handler)
            model, is_optional = body or (None, False)
            returned, accepted = _split_answer(answer or inspect.signature(handler).return_annotation)
            operation = Operation(
                method,
                _CONVERTER.sub("}", path),
                self._tag,
                handler,
                access,
                model,
                is_optional,
                query or NoQuery,
                returned,
                status,
                problems,
                etag is not None,
                checks_if_match or (etag is not None and method != "POST"),
                streams,
                accepted,
                method == "POST" and access is not None and idempotency,
            )
            self.operations.append(operation)
            self.router.add_api_route(
                path,
                _make_endpoint(operation, etag, is_secret=secret, checks_query=query is None),
                methods=[method],
                status_code=status,
                response_model=None,
            )
            return handler

        return register


def _split_answer(answer: Any) -> tuple[Any, Any]:
    """Return the document type of an annotation, and the document type of its `Accepted`, None without one."""
    accepted = [each for each in get_args(answer) if get_origin(each) is Accepted]
    if not accepted:
        return answer, None
    [document] = [each for each in get_args(answer) if each not in accepted]
    return document, get_args(accepted[0])[0]


def _read_parameters(
    handler: Callable[..., Any],
) -> tuple[Access | None, tuple[type[msgspec.Struct], bool] | None, type[msgspec.Struct] | None]:
    """Return access, body and query of a handler, as the dependencies of its parameters declare them."""
    access = body = query = None
    for parameter in inspect.signature(handler).parameters.values():
        for mark in getattr(parameter.annotation, "__metadata__", ()):
            dependency = getattr(mark, "dependency", None)
            access = getattr(dependency, ACCESS_ATTRIBUTE, access)
            body = getattr(dependency, BODY_ATTRIBUTE, body)
            query = getattr(dependency, QUERY_ATTRIBUTE, query)
    return access, body, query


def _make_endpoint(
    operation: Operation, etag: SettingsOf | None, *, is_secret: bool, checks_query: bool
) -> Callable[..., Awaitable[Response]]:
    """Return the function that FastAPI calls. It takes the handler's dependencies and the request."""
    handler, status = operation.handler, operation.status

    async def endpoint(request: Request, **inputs: Any) -> Response:
        if checks_query:
            read_query(NoQuery, request)
        if not operation.checks_if_match:
            refuse_if_match(request)
        at: At[Any] | None = inputs.get("at")
        headers: dict[str, str] = {}

        async def run() -> RouteResponse | Response:
            document = await handler(**inputs)
            if isinstance(document, Response):
                return document
            if isinstance(document, Accepted):
                return 202, _envelope(document.document)
            if etag is not None:
                if operation.method == "GET":
                    check_if_match(request, etag(document))
                headers["ETag"] = make_etag(etag(document))
            return status, _envelope(document)

        if at is None or not operation.takes_idempotency_key:
            made = await run()
            if isinstance(made, Response):
                return made
            return await _finish(at, _json(*made), headers)

        async def make() -> RouteResponse:
            made = await run()
            assert not isinstance(made, Response)
            return made

        response = await respond_idempotently(
            request,
            at.session,
            # Another token of the person must not get the stored secret, because that token may have fewer scopes.
            f"{at.caller.key} {at.caller.credential}" if is_secret else at.caller.key,
            _body_digest(request),
            make,
            seal=at.sealing_keys if is_secret else None,
            changed_keys=at.changed_keys,
        )
        return await _finish(at, response, headers)

    parameters = [
        inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request),
        *inspect.signature(handler).parameters.values(),
    ]
    # FastAPI reads the dependencies from the signature.
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    endpoint.__name__ = handler.__name__
    return endpoint


def _envelope(document: Any) -> dict[str, Any]:
    if isinstance(document, PageOf):
        return {"data": document.items, "next_cursor": document.next_cursor}
    return {"data": document}


def _body_digest(request: Request) -> bytes:
    """Return a keyed digest of the body: it may contain secrets, and a plain digest could be used to check guesses."""
    raw: bytes = getattr(request.state, "raw_body", b"")
    return hmac.digest(request.app.state.cursor_key, raw, "sha256") if raw else b""


async def _finish(at: At[Any] | None, response: Response, headers: Mapping[str, str]) -> Response:
    """Commit, inform the edges of changed keys, and add to the response a `warning` if they could not be informed."""
    response.headers.update(headers)
    if at is None or not at.changed_keys:
        return response
    await end_transaction(at.session)
    try:
        await at.publish_changes()
    except (StorageUnavailable, SQLAlchemyError) as error:
        # The change is committed, so no failure may be reported as a failure of the request.
        logger.warning("the edges could not be informed: %s", type(error).__name__)
        cause = str(error) if isinstance(error, StorageUnavailable) else "The database does not answer now."
        document = {**orjson.loads(response.body), "warning": describe_uninformed_edges(cause)}
        response.body = orjson.dumps(document)
        response.headers["Content-Length"] = str(len(response.body))
    return response


def _json(status: int, document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(document), status, headers, media_type="application/json")
