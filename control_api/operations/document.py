"""Builds the part of the OpenAPI document that describes the typed operations from their types and docstrings."""

import inspect
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from control_api.operations.pages import PageOf
from control_api.operations.router import Operation
from control_domain.accounts.roles import AccountRight, Right
from pipeline_contracts.errors import (
    CrossSiteRequest,
    DeployNotAllowed,
    InvalidCredential,
    NotAllowed,
    Problem,
    SessionRequired,
)

_PARAMETER = re.compile(r"\{(\w+)\}")
_REF_TEMPLATE = "#/components/schemas/{name}"
# The prefix of references that msgspec generates. Other references are written by hand and name a schema in YAML.
_MADE = "#/made/"
# A suffix of classes of response documents, which is removed from the names of schemas.
_SUFFIX = "Document"

_PATH_PARAMETERS: Mapping[str, tuple[str, str]] = {
    "project": ("string", "The project's string ID, or its number."),
    "environment": ("string", "The environment's string ID, or its number."),
    "person": ("string", "The person's string ID, or their number."),
    "build": ("integer", "The deployment's ID."),
    "run": ("string", "The run's ID, a UUID."),
    "variable": ("string", "The variable's name."),
    "group": ("string", "The ID of the group, 16 hexadecimal digits."),
    "trace": ("string", "The ID of the trace, 32 hexadecimal digits."),
    "name": ("string", "The metric's name."),
    "service": ("string", "The name of the service."),
    "channel": ("string", "The channel's string ID, or its number."),
    "incident": ("string", "The incident's string ID, or its number."),
    "notification": ("string", "The notification's string ID, or its number."),
    "key_id": ("integer", "The ID of the key, which is not its secret."),
}
"""Type and description of the parameters in paths; others are integers with the name of their object."""

# The type is part of the key: members of both enumerations are numbers and would be equal.
_RIGHTS: Mapping[type[IntEnum], Mapping[IntEnum, str]] = {
    Right: {
        Right.READ: "Needs a role in the project.",
        Right.DEPLOY: "Needs the role deployer or maintainer in the project.",
        Right.DECIDE: "Needs the role maintainer in the project.",
        Right.MANAGE: "Needs the role maintainer in the project.",
    },
    AccountRight: {
        AccountRight.READ: "",
        AccountRight.MANAGE: "Only for owners and admins of the account.",
        AccountRight.OWN: "Only for owners of the account.",
    },
}


def describe_operations(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return `paths` and `components` of the operations. Raises `ValueError` if two operations have the same ID."""
    operations = list(operations)
    ids = [operation.id for operation in operations]
    if repeated := {each for each in ids if ids.count(each) > 1}:
        raise ValueError(f"operations with the same ID: {', '.join(sorted(repeated))}")
    schemas = _Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        item = paths.setdefault(operation.path, {})
        item[operation.method.lower()] = _describe(operation, schemas)
    return {"paths": paths, "components": {"schemas": dict(sorted(schemas.components.items()))}}


class _Schemas:
    """The schemas of the types that operations name, and the components that they refer to."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        wanted: list[Any] = []
        for operation in operations:
            wanted.append(_document_of(operation.answer))
            if operation.accepted is not None:
                wanted.append(operation.accepted)
            if operation.body is not None:
                wanted.append(operation.body)
            wanted += [field.type for field in msgspec.structs.fields(operation.query)]
        unique = list({repr(type_): type_ for type_ in wanted}.values())
        schemas, components = msgspec.json.schema_components(unique, ref_template=f"{_MADE}{{name}}")
        self._by_type = {repr(type_): _rename(schema) for type_, schema in zip(unique, schemas, strict=True)}
        self.components = {_short(name): _tidy(_rename(schema)) for name, schema in components.items()}

    def of(self, type_: Any) -> dict[str, Any]:
        """Return the schema of a type that an operation names."""
        schema: dict[str, Any] = self._by_type[repr(type_)]
        return schema

    def envelope(self, answer: Any) -> dict[str, Any]:
        """Return the schema of a response body. It is a component, so that generated clients have a name for it."""
        document = self.of(_document_of(answer))
        properties: dict[str, Any] = {"data": document}
        required = ["data"]
        kind = "Answer"
        if typing.get_origin(answer) in (PageOf, list):
            properties["data"] = {"type": "array", "items": document}
            kind = "List"
        if typing.get_origin(answer) is PageOf:
            properties["next_cursor"] = {"$ref": "#/components/schemas/NextCursor"}
            required.append("next_cursor")
            kind = "Page"
        if kind == "Answer":
            properties["warning"] = {"$ref": "#/components/schemas/Warning"}
        schema = {"type": "object", "required": required, "properties": properties}
        if set(document) != {"$ref"}:
            return schema
        name = document["$ref"].rpartition("/")[2] + kind
        self.components[name] = schema
        return {"$ref": f"#/components/schemas/{name}"}


def _document_of(answer: Any) -> Any:
    """Return the response type of a document, of a list of documents, or of a page of documents."""
    if typing.get_origin(answer) in (PageOf, list):
        (document,) = typing.get_args(answer)
        return document
    return answer


def _short(name: str) -> str:
    return name.removesuffix(_SUFFIX) or name


def _rename(schema: Any) -> Any:
    """Return the schema with short names in its references."""
    if isinstance(schema, dict):
        return {
            key: _REF_TEMPLATE.format(name=_short(value.removeprefix(_MADE)))
            if key == "$ref" and value.startswith(_MADE)
            else _rename(value)
            for key, value in schema.items()
        }
    return [_rename(each) for each in schema] if isinstance(schema, list) else schema


def _tidy(schema: Any) -> Any:
    """Return the schema of a component without its title, which repeats its name, and with a plain description."""
    schema = {key: value for key, value in schema.items() if key != "title"}
    if "description" in schema:
        schema["description"] = inspect.cleandoc(schema["description"])
    return schema


def _describe(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    summary, _, rest = inspect.cleandoc(operation.handler.__doc__ or "").partition("\n")
    access = operation.access
    needed = "" if access is None else _RIGHTS[type(access.right)][access.right]
    description = "\n\n".join(part for part in (rest.strip(), needed) if part)
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": summary.rstrip("."),
    }
    if description:
        described["description"] = description
    if access is None:
        described["security"] = []
    elif access.needs_session:
        described["security"] = [{"session": []}]
    else:
        described["x-required-scope"] = access.scope
    if parameters := _describe_parameters(operation, schemas):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {"application/json": {"schema": schemas.of(operation.body)}},
        }
    described["responses"] = _describe_responses(operation, schemas)
    return described


def _describe_parameters(operation: Operation, schemas: _Schemas) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    for name in _PARAMETER.findall(operation.path):
        type_, text = _PATH_PARAMETERS.get(name, ("integer", f"The {name.replace('_', ' ')}'s ID."))
        schema = (
            {"type": "integer", "minimum": 1} if type_ == "integer" else {"type": "string", "minLength": 1}
        )
        parameters.append(
            {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
        )
    for field in msgspec.structs.fields(operation.query):
        of_field = _without_null(dict(schemas.of(field.type)))
        text = of_field.pop("description", "")
        if not field.required and field.default not in (None, msgspec.UNSET, msgspec.NODEFAULT):
            of_field["default"] = msgspec.to_builtins(field.default)
        parameters.append(
            {"name": field.encode_name, "in": "query", "required": field.required, "schema": of_field}
            | ({"description": text} if text else {})
        )
    if operation.takes_idempotency_key:
        parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
    if operation.checks_if_match and operation.method != "GET":
        parameters.append({"$ref": "#/components/parameters/IfMatch"})
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, because a given parameter is never null."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if not options:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}


def _describe_responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    headers: dict[str, Any] = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}
    if operation.has_etag:
        headers["ETag"] = {"$ref": "#/components/headers/ETag"}
    content: dict[str, Any] = {"application/json": {"schema": schemas.envelope(operation.answer)}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {
        str(operation.status): {
            "description": f"{HTTPStatus(operation.status).phrase}.",
            "headers": headers,
            "content": content,
        }
    }
    if operation.accepted is not None:
        schema = schemas.envelope(operation.accepted)
        responses["202"] = {
            "description": "Accepted: the change waits for a second person.",
            "headers": {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}},
            "content": {"application/json": {"schema": schema}},
        }
    return responses | _describe_problems(operation)


_SHARED_RESPONSES: Mapping[int, str] = {
    401: "ApiTokenInvalid",
    408: "BodyTooSlow",
    412: "VersionDiffers",
    413: "BodyTooLarge",
    415: "BodyNotJson",
    429: "TooManyRequests",
    431: "HeadTooLarge",
    503: "Unavailable",
}
"""Responses of `document.yaml` by status, for the problems that every operation of a kind can have."""


def _describe_problems(operation: Operation) -> dict[str, Any]:
    """Return the responses for the problems of an operation."""
    statuses = [412, 429, 503]
    slugs: dict[int, list[str]] = {422: ["validation-failed"]}
    if operation.access is not None:
        statuses.append(401)
        not_allowed = DeployNotAllowed if isinstance(operation.access.right, Right) else NotAllowed
        slugs[403] = ["missing-scope", not_allowed.slug, CrossSiteRequest.slug]
        if operation.access.needs_session:
            slugs[403] = [SessionRequired.slug, CrossSiteRequest.slug]
    if "{" in operation.path:
        slugs[404] = ["not-found"]
    if operation.body is not None:
        statuses += [408, 413, 415]
    if operation.query.__struct_fields__:
        statuses.append(431)
    if operation.access is not None and any(
        each.status == HTTPStatus.UNAUTHORIZED for each in operation.problems
    ):
        slugs[401] = [InvalidCredential.slug]
    for problem in operation.problems:
        named = slugs.setdefault(problem.status, [])
        if problem.slug not in named:
            named.append(problem.slug)
    responses = {
        status: {"$ref": f"#/components/responses/{_SHARED_RESPONSES[status]}"}
        for status in statuses
        if status not in slugs
    }
    responses |= {status: _describe_slugs(status, named) for status, named in slugs.items()}
    return {str(status): responses[status] for status in sorted(responses)}


def _describe_slugs(status: int, slugs: Sequence[str]) -> dict[str, Any]:
    titles = _titles()
    headers = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/BearerChallenge"}
    only_validation = list(slugs) == ["validation-failed"]
    return {
        "description": " ".join(f"`{slug}`: {titles[slug]}." for slug in slugs),
        "headers": headers,
        "content": {
            "application/problem+json": {
                "schema": {
                    "$ref": f"#/components/schemas/{'ValidationProblem' if only_validation else 'Problem'}"
                }
            }
        },
    }


@cache
def _titles() -> dict[str, str]:
    """Return the title of every problem by its slug."""
    found: dict[str, str] = {}
    classes: list[type[Problem]] = [Problem]
    while classes:
        problem = classes.pop()
        found.setdefault(problem.slug, problem.title)
        classes += problem.__subclasses__()
    return found
