"""The OpenAPI document: valid, complete, and consistent with the public API's table of operations."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from control_api.management.all_operations import ROUTERS
from control_api.operations.document import describe_operations
from control_api.reference import load_document as loading
from control_api.reference.load_document import EXAMPLES, PARTS, load_document
from control_domain.webhooks.outcome import Status
from pipeline_contracts import errors, git_refs

DOCUMENT = load_document()
_METHODS = ("get", "put", "post", "patch", "delete", "options", "head", "trace")
_FOLDER = Path(loading.__file__).parent

# The credentials of the documented API: the scope of an API token, or the kind of a key, `none` for no credential, or
# `signature` for a signed body.
DOCUMENTED = {
    ("GET", "/v1/account"): "account:read",
    ("GET", "/v1/me"): "deploy:read",
    ("GET", "/v1/projects"): "deploy:read",
    ("GET", "/v1/projects/{project}"): "deploy:read",
    ("GET", "/v1/deployments"): "deploy:read",
    ("GET", "/v1/deployments/{build}"): "deploy:read",
    ("GET", "/v1/deployments/{build}/log"): "deploy:read",
    ("POST", "/v1/deployments/{build}/rollback"): "deploy:write",
    ("POST", "/v1/deployments/{build}/promote"): "deploy:write",
    ("POST", "/v1/environments/{environment}/deploy"): "deploy:write",
    ("PATCH", "/v1/environments/{environment}/scale"): "deploy:write",
    ("PATCH", "/v1/environments/{environment}/runtime"): "deploy:write",
    ("PUT", "/v1/environments/{environment}/variables"): "deploy:write",
    ("PUT", "/v1/projects/{project}/workflow"): "deploy:write",
    ("POST", "/v1/projects/{project}/configuration/plan"): "deploy:write",
    ("POST", "/v1/projects/{project}/configuration/reviews"): "deploy:write",
    ("POST", "/v1/projects/{project}/configuration/reviews/{review}/apply"): "deploy:write",
    ("GET", "/v1/projects/{project}/configuration/applications/{application}"): "deploy:read",
    (
        "POST",
        "/v1/projects/{project}/configuration/applications/{application}/operations/{operation}/{action}",
    ): "deploy:write",
    ("POST", "/v1/deployments"): "ingestKey",
    ("POST", "/v1/ingest"): "ingestKey",
    ("GET", "/v1/ingest/receipts/{receipt}"): "ingestKey",
    # One operation for each `{signal}`, because each has a different body.
    ("POST", "/v1/otlp/v1/traces"): "ingestKey",
    ("POST", "/v1/otlp/v1/logs"): "ingestKey",
    ("POST", "/v1/otlp/v1/metrics"): "ingestKey",
    ("POST", "/v1/heartbeats/{heartbeat}"): "monitorKey",
    ("POST", "/v1/queues/{queue}/snapshots"): "monitorKey",
    ("POST", "/v1/queues/{queue}/workers"): "monitorKey",
    # In addition to the public API: the ping key is a part of the path.
    ("GET", "/ping/{ping_key}"): "none",
    ("POST", "/ping/{ping_key}"): "none",
    ("GET", "/ping/{ping_key}/{action}"): "none",
    ("POST", "/ping/{ping_key}/{action}"): "none",
    ("GET", "/ping/{ping_key}/{name}/{action}"): "none",
    ("POST", "/ping/{ping_key}/{name}/{action}"): "none",
    ("GET", "/v1/analytics/sites"): "analytics:read",
    ("GET", "/v1/analytics/sites/{site}/report"): "analytics:read",
    ("OPTIONS", "/v1/collect/{publicId}"): "none",
    ("POST", "/v1/collect/{publicId}"): "none",
    ("POST", "/repositories/{repository}/webhook"): "signature",
    ("POST", "/git-app/webhook"): "signature",
    # In addition to the public API: the host's name for the same route, and files for editors.
    ("POST", "/github-app/webhook"): "signature",
    ("GET", "/schemas/workflow-1.json"): "none",
    ("GET", "/schemas/configuration-2.json"): "none",
}
GENERATED = {
    (operation.method, operation.path): "none"
    if operation.access is None
    else "session"
    if operation.access.needs_session
    else operation.access.scope
    for router in ROUTERS
    for operation in router.operations
}
"""The credentials of the management API."""
OPERATIONS = DOCUMENTED | GENERATED


def resolve(value: Any) -> Any:
    """Resolve a reference."""
    while isinstance(value, dict) and "$ref" in value:
        found: Any = DOCUMENT
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method in _METHODS:
            if method in item:
                yield method.upper(), path, item[method]


ALL = [pytest.param(*found, id=f"{found[0]} {found[1]}") for found in operations()]
_each = pytest.mark.parametrize(("method", "path", "operation"), ALL)


def _media_types(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and the media type of the request and of all responses."""
    for name, media in resolve(operation.get("requestBody", {})).get("content", {}).items():
        yield f"request {name}", media
    for status, response in operation["responses"].items():
        for name, media in resolve(response).get("content", {}).items():
            yield f"{status} {name}", media


def _examples(holder: dict[str, Any]) -> list[Any]:
    single = [holder["example"]] if "example" in holder else []
    return single + [resolve(example)["value"] for example in holder.get("examples", {}).values()]


def _check(schema: dict[str, Any], value: Any, where: str) -> None:
    # References begin at the root, where the components are next to the schema.
    validator = OAS31Validator(
        {"allOf": [schema], "components": DOCUMENT["components"]},
        format_checker=OAS31Validator.FORMAT_CHECKER,
    )
    faults = [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(value)]
    assert not faults, f"{where}: {faults}"


def test_document_is_valid_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert re.fullmatch(r"3\.1\.\d+", DOCUMENT["openapi"])
    assert DOCUMENT["servers"][0]["url"] == "/api"


def test_every_yaml_file_is_part_of_the_document() -> None:
    class Strict(yaml.SafeLoader):
        """Refuses duplicate keys in a mapping, which YAML's own loader accepts."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            own = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            assert len(own) == len(set(own)), f"{node.start_mark}: {own}"
            return super().construct_mapping(node, deep)

    Strict.add_constructor(
        "tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node, deep=True)
    )
    files = [*PARTS, EXAMPLES]
    assert sorted(path.stem for path in _FOLDER.glob("*.yaml")) == sorted(files)
    for name in files:
        yaml.load((_FOLDER / f"{name}.yaml").read_text(), Strict)


def test_a_generated_schema_has_the_members_of_the_written_one_with_its_name() -> None:
    """The written schema is used for both. Two different schemas with one name would show the wrong one."""
    made = describe_operations(operation for router in ROUTERS for operation in router.operations)
    for name, schema in made["components"]["schemas"].items():
        used = DOCUMENT["components"]["schemas"][name]
        assert set(schema.get("properties", ())) == set(used.get("properties", ())), name


def test_an_example_belongs_to_an_operation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*PARTS, EXAMPLES):
        text = (_FOLDER / f"{name}.yaml").read_text()
        (tmp_path / f"{name}.yaml").write_text(text + ("no_operation: {}\n" if name == EXAMPLES else ""))
    monkeypatch.setattr(loading, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match="no operation is called no_operation"):
        load_document.__wrapped__()


def test_two_files_cannot_define_the_same_value() -> None:
    into = {"paths": {"/a": {"get": {"summary": "one"}}}}
    with pytest.raises(ValueError, match="other: paths: /a: get: summary is defined twice"):
        loading._merge(into, {"paths": {"/a": {"get": {"summary": "two"}}}}, "other")


def test_document_has_exactly_the_public_operations() -> None:
    assert not DOCUMENTED.keys() & GENERATED.keys()
    assert {(method, path) for method, path, _ in operations()} == set(OPERATIONS)


@_each
def test_security_of_operations_matches_the_public_api(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    expected = OPERATIONS[method, path]
    if expected in ("none", "signature"):
        assert operation["security"] == []
    elif ":" in expected:
        assert operation["security"] == [{"apiToken": [expected]}, {"session": [expected]}]
    else:
        assert operation["security"] == [{expected: []}]
    assert operation.get("x-required-scope") == (expected if ":" in expected else None)
    for requirement in operation["security"]:
        for scheme in requirement:
            assert DOCUMENT["components"]["securitySchemes"][scheme].get("scheme") == (
                None if scheme == "session" else "bearer"
            )


@_each
def test_every_operation_has_name_and_description(method: str, path: str, operation: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation["operationId"])
    assert operation["summary"] and not operation["summary"].endswith(".")
    assert operation.get("description", "").strip() or (method, path) in GENERATED
    (tag,) = operation["tags"]
    assert tag in [known["name"] for known in DOCUMENT["tags"]]


def test_operation_ids_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))


@_each
def test_error_responses_document_their_headers(method: str, path: str, operation: dict[str, Any]) -> None:
    responses = {status: resolve(response) for status, response in operation["responses"].items()}
    is_signed = OPERATIONS[method, path] == "signature"
    is_sign_in = (method, path.rpartition("/")[0]) == ("POST", "/v1/session") or path == "/v1/session"
    assert ("401" in responses) == (bool(operation["security"]) or is_signed or is_sign_in)
    assert "503" in responses
    if "x-required-scope" in operation:
        assert "403" in responses
    takes_body = "requestBody" in operation
    # A signed body is accepted in every form that a host sends.
    unread = {"408", "413"} if is_signed else {"408", "413", "415"}
    assert unread <= set(responses) or not takes_body or path.startswith(("/v1/otlp/", "/ping/"))
    for status, response in responses.items():
        needed = {"X-Request-Id"}
        # A signed route accepts no `Authorization` header.
        needed |= {"WWW-Authenticate"} if status == "401" and not is_signed else set()
        needed |= {"Retry-After"} if status in ("429", "503") else set()
        # The request rate of the control plane is not a quota of events.
        needed |= {"RateLimit-Policy", "RateLimit"} if _is_of_ingest(status, response) else set()
        assert needed <= set(response["headers"]), status
        if int(status) >= 400:
            kind = "application/json" if path.startswith("/v1/otlp/") else "application/problem+json"
            assert list(response["content"]) == [kind]


def _is_of_ingest(status: str, response: dict[str, Any]) -> bool:
    if status != "429":
        return False
    (media,) = response["content"].values()
    return media["example"].get("type") != "/problems/too-many-requests"


@_each
def test_examples_match_their_schemas(method: str, path: str, operation: dict[str, Any]) -> None:
    for where, media in _media_types(operation):
        examples = _examples(media)
        has_none = (method, path) in GENERATED and not where.startswith("request ")
        assert examples or has_none, f"{where} has no example: see {EXAMPLES}.yaml"
        for example in examples:
            _check(media["schema"], example, where)
    shared = DOCUMENT["paths"][path].get("parameters", [])
    for parameter in map(resolve, [*shared, *operation.get("parameters", [])]):
        assert parameter.get("description"), parameter["name"]
        for example in _examples(parameter):
            _check(parameter["schema"], example, parameter["name"])
    for status, response in operation["responses"].items():
        for name, header in resolve(response)["headers"].items():
            for example in _examples(resolve(header)):
                _check(resolve(header)["schema"], example, f"{status} {name}")


@_each
def test_every_field_of_a_body_has_a_description(method: str, path: str, operation: dict[str, Any]) -> None:
    """Fields of OTLP are described by OpenTelemetry."""
    bodies = resolve(operation.get("requestBody", {})).get("content", {})
    for name, media in bodies.items():
        missing = sorted(set(_without_description(media["schema"], name, frozenset())))
        assert not missing, missing


def test_operations_with_a_query_document_that_it_may_be_too_long() -> None:
    described = describe_operations(operation for router in ROUTERS for operation in router.operations)
    found = {True: 0, False: 0}
    for item in described["paths"].values():
        for operation in item.values():
            has_query = any(each.get("in") == "query" for each in operation.get("parameters", ()))
            assert ("431" in operation["responses"]) == has_query, operation["operationId"]
            found[has_query] += 1
    assert all(found.values())


def _without_description(schema: dict[str, Any], where: str, seen: frozenset[str]) -> Iterator[str]:
    reference = schema.get("$ref", "").rpartition("/")[2]
    if reference.startswith("Otlp") or reference in seen:
        return
    seen |= {reference} if reference else set()
    schema = resolve(schema)
    for name, value in schema.get("properties", {}).items():
        options = [resolve(value), *map(resolve, (*value.get("anyOf", ()), *value.get("oneOf", ())))]
        if not any("description" in option for option in (value, *options)):
            yield f"{reference or where}: {name}"
        yield from _without_description(value, f"{where}.{name}", seen)
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key, ()):
            yield from _without_description(option, where, seen)
    if isinstance(schema.get("items"), dict):
        yield from _without_description(schema["items"], f"{where}[]", seen)


@_each
def test_error_examples_have_their_status(method: str, path: str, operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        for name, media in resolve(response).get("content", {}).items():
            for example in _examples(media) if name == "application/problem+json" else []:
                assert str(example["status"]) == status


def test_error_examples_have_the_titles_of_the_errors() -> None:
    titles = {f"/problems/{problem.slug}": (problem.title, problem.status) for problem in _problems()}
    for _, _, operation in operations():
        for where, media in _media_types(operation):
            for example in _examples(media) if where.endswith("problem+json") else []:
                assert (example["title"], example["status"]) == titles[example["type"]]


def test_error_table_is_complete() -> None:
    rows = re.findall(r"\| `(/problems/[a-z-]+)` \| (\d+) \|", DOCUMENT["info"]["description"])
    assert sorted(rows) == sorted(
        (f"/problems/{problem.slug}", str(problem.status)) for problem in _problems()
    )


def _problems() -> list[type[errors.Problem]]:
    """The errors of the API, without those of the proxy for deployed applications."""
    found = [errors.Problem]
    for problem in found:
        found += [one for one in problem.__subclasses__() if one.__module__ == errors.__name__]
    return found


def test_ref_pattern_matches_the_deploy_api() -> None:
    body = DOCUMENT["paths"]["/v1/environments/{environment}/deploy"]["post"]["requestBody"]
    ref = body["content"]["application/json"]["schema"]["properties"]["ref"]
    assert ref["pattern"].replace(r"\u00", r"\x") == f"^{git_refs.REF.pattern}$"


def test_webhook_statuses_match_the_responses() -> None:
    for path in ("/repositories/{repository}/webhook", "/git-app/webhook", "/github-app/webhook"):
        responses = DOCUMENT["paths"][path]["post"]["responses"]
        told = {
            status
            for code in ("200", "202")
            for part in responses[code]["content"]["application/json"]["schema"]["allOf"]
            for status in part.get("properties", {}).get("status", {}).get("enum", [])
        }
        of_the_app = {"handled"} if path.startswith("/repositories") else set()
        assert told == set(get_args(Status)) - of_the_app
    rows = re.findall(
        r"\| `([a-z_]+)` \|",
        DOCUMENT["components"]["schemas"]["WebhookAnswer"]["properties"]["status"]["description"],
    )
    assert sorted(rows) == sorted(["status", *get_args(Status)])


def test_every_component_is_used() -> None:
    used = set(re.findall(r"'\$ref': '#/components/([a-zA-Z]+/[a-zA-Z0-9]+)'", str(DOCUMENT)))
    components = DOCUMENT["components"]
    declared = {
        f"{kind}/{name}" for kind in components if kind != "securitySchemes" for name in components[kind]
    }
    assert declared == used
