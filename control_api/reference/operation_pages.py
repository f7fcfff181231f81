"""The operations of the OpenAPI document as pages of the documentation: one for each tag, and one that lists all."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from control_api.reference.load_document import load_document
from web_dashboard.documentation.headings import Anchors

INDEX = "reference/http"
"""The address of the page that lists all operations. Those of a tag are below it: `reference/http/deploy`."""
_METHODS = ("get", "post", "put", "patch", "delete", "options")
_DEEPEST = 3
"""Levels of members that a table shows; deeper ones are in the OpenAPI document."""
_WIDTH = 80
"""Characters of a line of a request; longer ones are wrapped where they can be."""
_CREDENTIALS = {"apiToken": "$TOKEN", "ingestKey": "$KEY", "monitorKey": "$MONITOR_KEY"}
"""The variable with the credential, by the security scheme."""
_SIGN_IN = ("sign_in", "sign_in_with_link", "sign_in_with_invitation")
"""The operations whose response sets the cookie of a session."""


def list_operation_pages() -> Mapping[str, tuple[str, Callable[[], str]]]:
    """Return the title of each page and the function that writes it as Markdown, by the page's address:
    `reference/http/deploy`."""
    return {
        INDEX: ("API: all operations", _write_index),
        **{
            _address(tag): (f"API: {tag['name']}", partial(_write_page, tag))
            for tag in load_document()["tags"]
        },
    }


def _address(tag: Mapping[str, str]) -> str:
    return f"{INDEX}/{tag['name'].lower()}"


def _list_operations(tag: Mapping[str, str]) -> Iterator[tuple[str, str, Mapping[str, Any], list[Any]]]:
    """Yield method, path, operation and parameters of the operations of a tag."""
    for path, item in load_document()["paths"].items():
        for method in _METHODS:
            if method in item and tag["name"] in item[method]["tags"]:
                parameters = [*item.get("parameters", ()), *item[method].get("parameters", ())]
                yield method, path, item[method], parameters


def _root(path: str) -> str:
    """Return what a path of the document begins with on the host: nothing for ping URLs."""
    servers = load_document()["paths"][path].get("servers") or load_document()["servers"]
    return str(servers[0]["url"]).rstrip("/")


def _write_index() -> str:
    parts = [
        "# API: all operations\n",
        "After reading this page you know every operation of the API and where its page is.\n",
        "[The API](api.md) explains credentials, limits and errors. [`/api/openapi.json`](/api/openapi.json) is the "
        "same as an OpenAPI 3.1 document, for client generators and for tools that send requests.\n",
    ]
    for tag in load_document()["tags"]:
        anchors = Anchors()
        page = _address(tag).removeprefix("reference/")
        anchors.make(f"API: {tag['name']}")
        parts.append(f"## {tag['name']}\n\n| operation | request | scope |\n|---|---|---|")
        for method, path, operation, _ in _list_operations(tag):
            summary = operation["summary"]
            scope = f"`{operation['x-required-scope']}`" if "x-required-scope" in operation else ""
            link = f"[{_cell(summary)}]({page}.md#{anchors.make(summary)})"
            parts.append(f"| {link} | `{method.upper()} {_root(path)}{path}` | {scope} |")
        parts.append("")
    return "\n".join(parts)


def _write_page(tag: Mapping[str, str]) -> str:
    document = load_document()
    parts = [
        f"# API: {tag['name']}\n",
        f"After reading this page you can call the operations of the API about {tag['name'].lower()}.\n",
        f"{tag['description']}\n",
        "`BASE`, `TOKEN` and `KEY` are those of the [quick start](../../quick-start.md); `cookies.txt` is what "
        "[signing in](sign-in.md#sign-in-with-a-password) writes. [The API](../api.md) explains "
        "credentials, limits and errors; [all operations](../http.md) lists those of the other pages.\n",
    ]
    operations = list(_list_operations(tag))
    parts += _write_variables(
        {name for _, path, _, _ in operations for name in re.findall(r"\{(\w+)\}", path)}
    )
    for method, path, operation, parameters in operations:
        parts += _write_operation(document, method, path, operation, parameters)
    return "\n".join(parts)


# Each command prints the ID of what the first start has created. Names, because some requests delete what they name.
_LISTS = {
    "project": "pharos project show my-project --quiet",
    "environment": "pharos environment show my-project/production --quiet",
    "heartbeat": "pharos heartbeat show first-heartbeat --quiet",
    "queue": "pharos queue show default --quiet",
    "site": "pharos site list --quiet | head -n 1",
}


def _write_variables(parameters: set[str]) -> Iterator[str]:
    """Yield how to set the variables of the paths of a page, with a command where one prints the ID."""
    if listed := [f"{_shell_name(one)}=$({_LISTS[one]})" for one in _LISTS if one in parameters]:
        yield "The paths contain IDs. For what the first start has created, these commands print them:\n"
        yield "```sh\n" + "\n".join(listed) + "\n```\n"
    if others := sorted(f"`{_shell_name(one)}`" for one in parameters - _LISTS.keys()):
        yield (
            f"Set {', '.join(others)} yourself: the responses of the operations that list or create these things "
            "contain the values.\n"
        )


def _write_operation(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any], parameters: list[Any]
) -> Iterator[str]:
    yield f"## {operation['summary']}\n"
    scope = operation.get("x-required-scope")
    yield f"`{method.upper()} {_root(path)}{path}`{f' · scope `{scope}`' if scope else ''}\n"
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
    words = [
        f'curl -sS{"" if method == "get" else f" -X {method.upper()}"} "$BASE{_root(path)}{address}"',
        *_write_credential(method, operation),
        *_write_body(content),
    ]
    line = " ".join(words)
    if len(line) > _WIDTH or len(words) > 2:
        line = " \\\n  ".join(words)
    yield f"```sh\n{line}\n```\n"


def _write_credential(method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that identify the caller."""
    schemes = {scheme for each in operation.get("security", ()) for scheme in each}
    if header := next((_CREDENTIALS[scheme] for scheme in _CREDENTIALS if scheme in schemes), None):
        yield f'-H "Authorization: Bearer {header}"'
    elif "session" in schemes:
        # Without the headers of a browser, a change with a cookie is refused.
        yield "-b cookies.txt" if method == "get" else '-b cookies.txt -H "Origin: $BASE"'
    elif operation["operationId"] in _SIGN_IN:
        yield "-c cookies.txt"


def _write_body(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that send the example of the first content type."""
    for content_type, media in content.items():
        example = _find_example(media)
        if content_type == "application/json":
            yield f"-H 'Content-Type: {content_type}'"
            text = json.dumps(example, ensure_ascii=False)
            if len(text) > _WIDTH - len("  -d ''"):
                text = _indent_json(example)
        else:
            text = str(example)
        yield "-d '" + text.replace("'", "'\\''") + "'"
        return


def _indent_json(value: Any, indent: str = "") -> str:
    """Return JSON with a line for each member, except that short values stay on the line of their name."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or (indent and len(text) <= _WIDTH // 2):
        return text
    inner = f"{indent}  "
    if isinstance(value, dict):
        begin, end = "{", "}"
        parts = [f"{json.dumps(name)}: {_indent_json(member, inner)}" for name, member in value.items()]
    else:
        begin, end = "[", "]"
        parts = [_indent_json(member, inner) for member in value]
    lines = f",\n{inner}".join(parts)
    return f"{begin}\n{inner}{lines}\n{indent}{end}"


def _shell_name(parameter: str) -> str:
    # `SITE` is the public ID of the tracker in the quick start.
    name = "site_id" if parameter == "site" else parameter
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


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
