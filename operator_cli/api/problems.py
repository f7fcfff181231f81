"""Turns responses that refuse a request into `CommandFailed`, with a message for people."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from operator_cli.api.http_connection import Response
from operator_cli.api.next_steps import next_step
from operator_cli.api.target import Target
from operator_cli.errors import FAILED, NOT_FOUND, NOT_LOGGED_IN, CommandFailed, InstallationUnreachable
from operator_cli.terminal_text import sanitize
from pipeline_contracts.errors import UNKNOWN_ADDRESS, UNKNOWN_METHOD

T = TypeVar("T")

_TYPE_PREFIX = "/problems/"
_MAX_ERRORS = 50
_MAX_DETAIL_CHARACTERS = 2000
_EXIT_STATUSES: Mapping[int, int] = {HTTPStatus.UNAUTHORIZED: NOT_LOGGED_IN, HTTPStatus.NOT_FOUND: NOT_FOUND}


class ApiRefused(CommandFailed):
    """The API refused a request: its status, the slug of its type, and the problem document."""

    def __init__(self, message: str, status: int, slug: str, document: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.slug = slug
        """The last part of `type`: `environment-locked`."""
        self.document = document
        self.exit_status = _EXIT_STATUSES.get(status, FAILED)


def allow_missing_scope(read: Callable[[], T]) -> T | None:
    """Return the result of `read`, or None if the token lacks the scope for it. Raises `CommandFailed`."""
    try:
        return read()
    except ApiRefused as error:
        if error.slug != "missing-scope":
            raise
        return None


def refusal(target: Target, response: Response) -> CommandFailed:
    """Return the error for a response that is not a success."""
    status = response.status
    if 300 <= status < 400:
        return CommandFailed(_describe_redirect(target, response))
    document = response.document
    if not isinstance(document, dict) or not isinstance(document.get("detail", ""), str):
        if status in (502, 503, 504):
            return InstallationUnreachable(
                f"{target.base_url} answered {status}: it is not available now. Try again.",
                may_have_effect=True,
            )
        return CommandFailed(
            f"{target.base_url} answered {status}, but not as Pharos does. Check the URL of the installation; a proxy "
            "in front of it may have refused the request."
        )
    if document.get("detail") in (UNKNOWN_ADDRESS, UNKNOWN_METHOD):
        return CommandFailed(
            f"{target.base_url} has no such operation: it runs an older version of Pharos, or the URL is wrong."
        )
    if status == HTTPStatus.UNAUTHORIZED:
        return _refuse_credential(target, document)
    return describe_problem(status, document)


def describe_problem(status: int, document: Mapping[str, Any]) -> CommandFailed:
    """Return the error for a problem document: its detail, the fields with their faults on lines of their own, and the
    next step."""
    slug = _slug(document)
    detail = _detail(document)
    errors = document.get("errors")
    lines = [_describe_field(error) for error in errors[:_MAX_ERRORS]] if isinstance(errors, list) else []
    step = next_step(slug, document)
    message = "\n".join([detail, *lines, *([step] if step else [])]) if lines else f"{detail} {step}".rstrip()
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return InstallationUnreachable(message)
    return ApiRefused(message, status, slug, document)


def _refuse_credential(target: Target, document: Mapping[str, Any]) -> ApiRefused:
    detail = _detail(document)
    # The text follows a colon.
    reason = detail[:1].lower() + detail[1:]
    message = f"{target.base_url} refused {target.source}: {reason} {target.remedy}"
    return ApiRefused(message, HTTPStatus.UNAUTHORIZED, _slug(document), document)


def _slug(document: Mapping[str, Any]) -> str:
    return str(document.get("type", "")).removeprefix(_TYPE_PREFIX)


def _detail(document: Mapping[str, Any]) -> str:
    detail = document.get("detail") or document.get("title") or "The request was refused."
    return sanitize(str(detail), max_length=_MAX_DETAIL_CHARACTERS)


def _describe_field(error: Any) -> str:
    if not isinstance(error, dict):
        return f"  {sanitize(str(error))}"
    field, message = error.get("field"), str(error.get("message"))
    if "line" in error:
        # Messages about documents may begin with the line as well.
        field, message = f"{field} (line {error['line']})", message.removeprefix(f"line {error['line']}: ")
    return "  " + sanitize(f"{field}: {message}")


def _describe_redirect(target: Target, response: Response) -> str:
    """Return why a redirect is not followed: the token would reach an address that the person has not chosen."""
    location = response.headers.get("location", "")
    to = f" to {location[:200]}" if location.isprintable() and location else ""
    return (
        f"{target.base_url} redirects{to}, and the token is not sent there. If that is the installation, use its URL: "
        "`pharos login URL`."
    )
