"""Faults of workflow and configuration documents, printed as compilers do, so that editors find the line."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from operator_cli.api.problems import ApiRefused
from operator_cli.terminal_text import sanitize

_REFUSED = "validation-failed"


class DocumentFault(NamedTuple):
    """One fault of a document."""

    path: str
    """The path in the document: `processes.web.command`; empty for the whole document."""
    line: int
    message: str

    def format(self, file: str) -> str:
        """Return `FILE:LINE: PATH: MESSAGE`."""
        path = f"{self.path}: " if self.path else ""
        return f"{file}:{self.line}: {sanitize(path + self.message)}"


def read_faults(error: ApiRefused, member: str) -> list[DocumentFault]:
    """Return the faults of the document in the member `member` of the request from a refusal of the API; none if the
    request was refused for another reason."""
    return [
        DocumentFault(
            str(each["field"]).removeprefix(member).removeprefix("."),
            each["line"],
            str(each["message"]).removeprefix(f"line {each['line']}: "),
        )
        for each in _errors(error)
        if isinstance(each.get("line"), int) and str(each.get("field")).startswith(member)
    ]


def read_other_errors(error: ApiRefused, member: str) -> list[tuple[str, str]]:
    """Return (path, message) of each error below another member than the document's: `("url", "has no value")`."""
    return [
        (str(each["field"]).removeprefix(member).removeprefix("."), str(each["message"]))
        for each in _errors(error)
        if str(each.get("field")).startswith(member) and "line" not in each
    ]


def _errors(error: ApiRefused) -> Iterator[Mapping[str, Any]]:
    errors = error.document.get("errors")
    if error.slug == _REFUSED and isinstance(errors, list):
        yield from (each for each in errors if isinstance(each, dict))
