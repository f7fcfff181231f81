"""Errors by cause. A `Problem` carries its HTTP answer; a storage error carries the retry decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_FIELD_ERRORS = 50


@dataclass(frozen=True, slots=True)
class FieldError:
    """One refused input: where (`events[3].type`) and why."""

    field: str
    message: str
    line: int | None = None
    """The line of a document, from 1."""

    def to_document(self) -> dict[str, object]:
        """The item of `errors`."""
        told: dict[str, object] = {"field": self.field, "message": self.message}
        return told if self.line is None else {**told, "line": self.line}


class Problem(Exception):
    """An answer that refuses a request: status, stable slug, title, and what this case was."""

    status = 500
    slug = "internal-error"
    title = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[FieldError] = (),
        members: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers: dict[str, str] = dict(headers or {})
        self.errors = tuple(errors[:MAX_FIELD_ERRORS])
        self.members: dict[str, object] = dict(members or {})
        """Extension members, which programs read."""

    def to_document(self) -> dict[str, object]:
        """The RFC 9457 body."""
        document: dict[str, object] = {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [error.to_document() for error in self.errors]
        return {**document, **self.members}


class MalformedRequest(Problem):
    """No valid HTTP: the request line, a header or the framing of the body cannot be read."""

    status = 400
    slug = "malformed-request"
    title = "The request is not valid HTTP"


class InvalidCredential(Problem):
    """No credential, or one that opens nothing."""

    status = 401
    slug = "invalid-credential"
    title = "Missing or invalid credential"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class BadSignature(Problem):
    """A webhook that was not signed with the repository's secret."""

    status = 401
    slug = "bad-signature"
    title = "Bad signature"


class MissingScope(Problem):
    """A genuine API token without the scope that the operation needs."""

    status = 403
    slug = "missing-scope"
    title = "Token lacks the scope"


class DeployNotAllowed(Problem):
    """The person behind the token may not do this with Deploy in the project."""

    status = 403
    slug = "deploy-not-allowed"
    title = "May not use Deploy in the project"


class OriginNotRegistered(Problem):
    """A page of an origin that is not the site's."""

    status = 403
    slug = "origin-not-registered"
    title = "Origin is not registered for the site"


class NotFound(Problem):
    """Nothing under this address in the caller's account."""

    status = 404
    slug = "not-found"
    title = "Not found"


class MethodNotAllowed(Problem):
    """The address exists, the method does not."""

    status = 405
    slug = "method-not-allowed"
    title = "Method not allowed"


class RequestTimeout(Problem):
    """The body did not arrive in time."""

    status = 408
    slug = "request-timeout"
    title = "The request took too long to arrive"


class DeployRunning(Problem):
    """The environment has a deployment that is not finished; `active_deployment_id` names it."""

    status = 409
    slug = "deploy-running"
    title = "A deploy is running"


class ReviewExpired(Problem):
    """A configuration review whose 15 minutes are over."""

    status = 409
    slug = "review-expired"
    title = "The review has expired"


class ReviewApplied(Problem):
    """A configuration review that was applied already; `application_id` names its application."""

    status = 409
    slug = "review-applied"
    title = "The review was applied already"


class ProjectChanged(Problem):
    """The project is no longer as the review's plan saw it."""

    status = 409
    slug = "project-changed"
    title = "The project has changed since the review"


class ApplicationRunning(Problem):
    """An application of the project is not finished; `application_id` names it."""

    status = 409
    slug = "application-running"
    title = "An application is running"


class OperationNotPossible(Problem):
    """An operation that cannot be canceled, or tried again, as it is now."""

    status = 409
    slug = "operation-not-possible"
    title = "Not possible for this operation now"


class RepositoryNotReady(Problem):
    """What a webhook asks for cannot be deployed now: the environment or the project is not ready for it."""

    status = 409
    slug = "repository-not-ready"
    title = "The repository cannot deploy"


class PayloadTooLarge(Problem):
    """Over one of the limits of size or count."""

    status = 413
    slug = "payload-too-large"
    title = "Payload too large"


class UnsupportedMediaType(Problem):
    """A content type or content encoding that the operation does not read."""

    status = 415
    slug = "unsupported-media-type"
    title = "Unsupported media type"


class InvalidInput(Problem):
    """Validation failed; `errors` lists every field."""

    status = 422
    slug = "validation-failed"
    title = "Validation failed"


class PayloadNotUsable(InvalidInput):
    """A webhook's body or headers that do not say what its event has to."""

    slug = "payload-not-usable"
    title = "The payload is not usable"


class EnvironmentLocked(InvalidInput):
    """Somebody has locked the environment."""

    slug = "environment-locked"
    title = "The environment is locked"


class OutsideWindow(InvalidInput):
    """The environment takes deploys at other times."""

    slug = "outside-window"
    title = "Outside the deploy window"


class EnvironmentNotReady(InvalidInput):
    """Something that a deploy needs is missing."""

    slug = "environment-not-ready"
    title = "The environment is not ready"


class NotRetained(InvalidInput):
    """There is no release of this deployment any more, or there never was."""

    slug = "not-retained"
    title = "The release is not retained"


class NotPromotable(InvalidInput):
    """The deployment cannot go to that environment."""

    slug = "not-promotable"
    title = "The deployment cannot be promoted"


class HeadTooLarge(Problem):
    """The request line and the headers together are over the limit."""

    status = 431
    slug = "head-too-large"
    title = "The head of the request is too large"


class MethodNotImplemented(Problem):
    """A method that HTTP does not know."""

    status = 501
    slug = "method-not-implemented"
    title = "Unknown method"


class RateLimited(Problem):
    """Over the account's ingest rate; `Retry-After` says when to come back."""

    status = 429
    slug = "rate-limited"
    title = "Over the ingest rate"


class TooManyRequests(Problem):
    """More requests, or reports, of one account or address than it may have; `Retry-After` says when to come
    back."""

    status = 429
    slug = "too-many-requests"
    title = "Too many requests"


class Unavailable(Problem):
    """A part that the call needs does not answer now. Nothing was stored; the same request may be sent again."""

    status = 503
    slug = "unavailable"
    title = "Temporarily unavailable"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


class StorageUnavailable(Exception):
    """An engine (log, column store, counter, directory) is away or full. Try again; nothing was changed."""


class LogFull(StorageUnavailable):
    """The event log has reached its size limit. It empties as the consumers catch up."""


class InsertTooLate(StorageUnavailable):
    """The column store refused an insert because its deadline had passed. Nothing was stored."""


class RowsRefused(Exception):
    """The column store answered that these rows can never be inserted: trying again is useless."""


class PartitionLost(Exception):
    """Another consumer holds the partition now: drop the work, insert nothing."""


class RecordsGone(Exception):
    """The log has removed records before they were read; it goes on at `next_offset`."""

    def __init__(self, partition: int, start: int, next_offset: int) -> None:
        super().__init__(f"partition {partition}: records {start} to {next_offset - 1} are gone")
        self.next_offset = next_offset
