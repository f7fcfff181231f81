"""Reads and writes variables as text: `KEY=value` lines.

- Lines end in LF, CRLF or CR. Empty lines and lines that begin with `#` are ignored. `export` before a name is
  allowed; blanks (spaces and tabs) around name and value are ignored.
- `KEY=value # comment`: the literal value. A backslash, a `$` and a `#` without a blank before it are plain
  characters: nothing is expanded.
- `KEY='value'`: the literal value, on one line.
- `KEY="value"`: may span lines, which then end in LF. `\\n \\r \\t \\\\ \\" \\$` are escapes, any other backslash
  stays.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline_contracts.errors import MAX_FIELD_ERRORS, FieldError, InvalidInput

MAX_TEXT_BYTES = 256 * 1024
MAX_VARIABLES = 1000
# On Linux, one string of a process's environment has at most 32 pages (MAX_ARG_STRLEN), including its NUL.
MAX_VARIABLE_BYTES = 128 * 1024 - 1
"""Bytes of name, `=` and value together."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
BAD_NAME = "a name has letters, digits and _, no digit first, and at most 255 characters"

_BLANKS = " \t"
_KEY = re.compile(rf"(?:export[ \t]+)?({NAME.pattern})")
# Match one blank, not several: matching a run of blanks would take quadratic time.
_COMMENT = re.compile(r"[ \t]#")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ESCAPE_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\", r"\"": '"', r"\$": "$"}
_ESCAPED_CHARACTERS = str.maketrans({"\\": r"\\", '"': r"\"", "\r": r"\r"})

_NO_EQUALS = "there is no ="
_SINGLE_OPEN = "the single quote is not closed on its line"
_DOUBLE_OPEN = "the double quote is not closed; the following lines were not read"
_AFTER_QUOTE = "after the closing quote, only a comment with a blank before its # is allowed"
_NUL = "a value cannot contain NUL"
_SURROGATE = "the value contains half a surrogate pair, which UTF-8 cannot encode"


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, its fault if any, and the position of the end of its last line."""

    end: int
    text: str = ""
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with an assignment: its number, and the parts before and after its `=`."""

    number: int
    key: str
    value: _Value | None


def read_dotenv(text: str) -> dict[str, str]:
    """Return the variables in this text, in its order.

    Raises `InvalidInput` that names every invalid line, up to the limit of a response. No message has a value, or a
    name that is not well formed.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise _refusal([f"the text has more than {MAX_TEXT_BYTES} bytes"])
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    faults: list[str] = []
    for line in _read_lines(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")):
        key = _KEY.fullmatch(line.key)
        name = key[1] if key else ""
        found = _find_faults(name, line, lines)
        if line.value is not None and name:
            lines.setdefault(name, line.number)
            values[name] = line.value.text
        if len(lines) > MAX_VARIABLES:
            found.append(f"more than {MAX_VARIABLES} variables; the following lines were not read")
        faults += [f"line {line.number}: {fault}" for fault in found]
        if len(lines) > MAX_VARIABLES or len(faults) >= MAX_FIELD_ERRORS:
            break
    if faults:
        raise _refusal(faults)
    return values


def _refusal(faults: list[str]) -> InvalidInput:
    return InvalidInput(
        "Nothing was changed. Fix the lines listed below and send all variables again.",
        errors=[FieldError("variables", fault) for fault in faults],
    )


def _read_lines(text: str) -> Iterator[_Line]:
    """Yield the lines with assignments. A value of several lines belongs to the line on which it begins."""
    start, number = 0, 1
    while start < len(text):
        end = _find_line_end(text, start)
        content = text[start:end].strip(_BLANKS)
        if content and not content.startswith("#"):
            key, equals, _ = content.partition("=")
            value = _read_value(text, text.index("=", start) + 1, end) if equals else None
            yield _Line(number, key.rstrip(_BLANKS), value)
            end = value.end if value else end
        number += text.count("\n", start, end + 1)
        start = end + 1


def _find_line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _read_value(text: str, start: int, end: int) -> _Value:
    """Read the value from `start`; `end` is the end of the line."""
    rest = text[start:end].lstrip(_BLANKS)
    opening = end - len(rest)
    if rest.startswith('"'):
        # An unclosed quote consumes the rest of the text: guessing its end would report wrong faults.
        marks = _ESCAPE_OR_QUOTE.finditer(text, opening + 1)
        closing = next((mark.start() for mark in marks if mark[0] == '"'), None)
        if closing is None:
            return _Value(len(text), fault=_DOUBLE_OPEN)
        inner = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[0], escape[0]), text[opening + 1 : closing])
        return _check_after_quote(text, closing, inner)
    if rest.startswith("'"):
        closing = text.find("'", opening + 1, end)
        if closing < 0:
            return _Value(end, fault=_SINGLE_OPEN)
        return _check_after_quote(text, closing, text[opening + 1 : closing])
    comment = _COMMENT.search(text, start, end)
    return _Value(end, text[start : comment.start() if comment else end].strip(_BLANKS))


def _check_after_quote(text: str, closing: int, inner: str) -> _Value:
    """Return the value whose last quote is at `closing`, with a fault if the rest of the line is not allowed."""
    end = _find_line_end(text, closing)
    rest = text[closing + 1 : end]
    bare = rest.strip(_BLANKS)
    allowed = not bare or (bare.startswith("#") and not rest.startswith("#"))
    return _Value(end, inner, None if allowed else _AFTER_QUOTE)


def _find_faults(name: str, line: _Line, lines: Mapping[str, int]) -> list[str]:
    """Return the faults of the line. `name` is empty if it is not well formed; `lines` has earlier names."""
    if line.value is None:
        return [_NO_EQUALS]
    faults = []
    if not name:
        faults.append(BAD_NAME)
    elif name in lines:
        faults.append(f"{name} is given already on line {lines[name]}")
    fault = line.value.fault or find_value_fault(name, line.value.text)
    return [*faults, fault] if fault else faults


def find_value_fault(name: str, value: str) -> str | None:
    """Return why a process cannot have this variable, without the value; None if it can."""
    if "\0" in value:
        return _NUL
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return _SURROGATE
    if len(name) + 1 + size > MAX_VARIABLE_BYTES:
        return f"name, = and value together have more than {MAX_VARIABLE_BYTES} bytes"
    return None


def write_dotenv(values: Mapping[str, str]) -> str:
    """Return the variables as text: plain values where possible, else in double quotes.

    `read_dotenv` returns the same variables, unless the text exceeds its limit: an escape is two characters.
    """
    return "".join(f"{key}={_write_value(value)}\n" for key, value in values.items())


def _write_value(value: str) -> str:
    plain = (
        value == value.strip(_BLANKS)
        and not value.startswith(('"', "'"))
        and "\n" not in value
        and "\r" not in value
        and not _COMMENT.search(value)
    )
    return value if plain else f'"{value.translate(_ESCAPED_CHARACTERS)}"'
