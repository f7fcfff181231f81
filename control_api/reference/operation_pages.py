"""The operations of the OpenAPI document as pages of the documentation, one page for each tag."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from control_api.reference.load_document import load_document

_METHODS = ("get", "post", "put", "patch", "delete", "options")
_DEEPEST = 3
"""Levels of members that a table shows; deeper ones are in the OpenAPI document."""


def list_operation_pages() -> Mapping[str, tuple[str, Callable[[], str]]]:
    """Return the title of each page and the function that writes it as Markdown, by the page's address:
    `reference/http/deploy`."""
    return {
        f"reference/http/{tag['name'].lower()}": (f"API: {tag['name']}", partial(_write_page, tag))
        for tag in load_document()["tags"]
    }


def _write_page(tag: Mapping[str, str]) -> str:
    document = load_document()
    parts = [
        f"# API: {tag['name']}\n",
        f"After reading this page you can call the operations of the API about {tag['name'].lower()}.\n",
        f"{tag['description']}\n",
        "`BASE` and `TOKEN` are those of the [quick start](../../quick-start.md). [The API](../api.md) explains "
        "credentials, limits and errors; [`/api/docs`](/api/docs) lets you try requests.\n",
    ]
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item and tag["name"] in item[method]["tags"]:
                parameters = [*item.get("parameters", ()), *item[method].get("parameters", ())]
                parts += _write_operation(document, method, path, item[method], parameters)
    return "\n".join(parts)


def _write_operation(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any], parameters: list[Any]
) -> Iterator[str]:
    yield f"## {operation['summary']}\n"
    scope = operation.get("x-required-scope")
    yield f"`{method.upper()} /api{path}`{f' · scope `{scope}`' if scope else ''}\n"
    yield f"{operation.get('description', '')}\n"
    yield from _write_parameters([_resolve(document, one) for one in parameters])
    body = operation.get("requestBody")
    content = _resolve(document, body).get("content", {}) if body else {}
    if "application/json" in content:
        yield from _write_members("Body", document, content["application/json"]["schema"])
    yield from _write_request(method, path, operation, content)
    yield from _write_responses(document, operation["responses"])


def _write_parameters(parameters: list[Mapping[str, Any]]) -> Iterator[str]:
    shown = [one for one in parameters if one["in"] != "header" or one["name"] != "X-Request-Id"]
    if not shown:
        return
    yield "| parameter | in | meaning |\n|---|---|---|"
    for one in shown:
        required = "" if not one.get("required") or one["in"] == "path" else "Required. "
        yield f"| `{one['name']}` | {one['in']} | {required}{_cell(one.get('description', ''))} |"
    yield ""


def _write_members(title: str, document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    rows = list(_list_members(document, schema, "", 1))
    if not rows:
        return
    yield f"| {title.lower()} | type | meaning |\n|---|---|---|"
    yield from (f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in rows)
    yield ""


def _list_members(
    document: Mapping[str, Any], schema: Mapping[str, Any], prefix: str, level: int
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of the members of a schema, and of the objects in it."""
    schema = _merge(document, schema)
    required = frozenset(schema.get("required", ()))
    for name, member in schema.get("properties", {}).items():
        member = _merge(document, member)
        kind = _describe_type(document, member)
        meaning = _cell(member.get("description", ""))
        must = "Required. " if name in required else ""
        yield f"{prefix}{name}", kind, f"{must}{meaning}".strip()
        inner, mark = (member["items"], "[].") if "items" in member else (member, ".")
        if level < _DEEPEST:
            yield from _list_members(document, inner, f"{prefix}{name}{mark}", level + 1)


def _describe_type(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{_as_json(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{_as_json(schema['const'])}`"
    kinds = schema.get("type", "any")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "items" in schema:
        inner = _describe_type(document, _merge(document, schema["items"]))
        kinds = [f"array of {inner}" if one == "array" else one for one in kinds]
    return " or ".join(kinds)


def _write_request(
    method: str, path: str, operation: Mapping[str, Any], content: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the request as a command. Parts of the path are variables of the shell."""
    address = re.sub(r"\{(\w+)\}", lambda found: "$" + _shell_name(found[1]), path)
    words = ["curl -sS", *([] if method == "get" else [f"-X {method.upper()}"]), f'"$BASE/api{address}"']
    if operation.get("security", [{}]) != []:
        words.append('-H "Authorization: Bearer $TOKEN"')
    example = _find_example(content.get("application/json", {}))
    if example is not None:
        text = _as_json(example).replace("'", "'\\''")
        words += ["-H 'Content-Type: application/json'", f"\\\n  -d '{text}'"]
    yield f"```sh\n{' '.join(words)}\n```\n"


def _shell_name(parameter: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", parameter).upper()


def _write_responses(document: Mapping[str, Any], responses: Mapping[str, Any]) -> Iterator[str]:
    resolved = {status: _resolve(document, response) for status, response in responses.items()}
    for status, response in resolved.items():
        content = response.get("content", {}).get("application/json", {})
        if status.startswith("2") and (example := _find_example(content)) is not None:
            yield f"**{status}**:\n\n```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n"
        elif status.startswith("2") and "schema" in content:
            yield from _write_members(f"response {status}", document, content["schema"])
    yield "| status | meaning |\n|---|---|"
    for status, response in resolved.items():
        yield f"| {status} | {_cell(response['description'])} |"
    yield ""


def _find_example(content: Mapping[str, Any]) -> Any:
    if "example" in content:
        return content["example"]
    examples = content.get("examples", {})
    return next((one["value"] for one in examples.values()), None)


def _merge(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without references, with the members of the first of its alternatives that is not null."""
    merged = dict(_resolve(document, schema))
    parts = [*merged.pop("allOf", ())]
    alternatives = [_resolve(document, one) for one in merged.pop("anyOf", ())]
    parts += [one for one in alternatives if one.get("type") != "null"][:1]
    for part in parts:
        for key, value in _merge(document, part).items():
            if key == "properties":
                merged[key] = {**value, **merged.get(key, {})}
            else:
                merged.setdefault(key, value)
    return merged


def _resolve(document: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in value:
        beside = {key: member for key, member in value.items() if key != "$ref"}
        found: Any = document
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        value = {**found, **beside}
    return value


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
