"""Errors by cause. A `Problem` carries its HTTP response; the class of a storage error says if a retry can help."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

MAX_FIELD_ERRORS = 50
# By these details the command line knows an installation that lacks an operation, so they stay as they are.
UNKNOWN_ADDRESS = "There is nothing at this address."
UNKNOWN_METHOD = "This address does not take the method."


@dataclass(frozen=True, slots=True)
class FieldError:
    """One refused input: its field (`events[3].type`) and the reason."""

    field: str
    message: str
    line: int | None = None
    """The line of a document, from 1."""

    def to_document(self) -> dict[str, object]:
        """Return the item of `errors` in a problem document."""
        document: dict[str, object] = {"field": self.field, "message": self.message}
        return document if self.line is None else {**document, "line": self.line}


class Problem(Exception):
    """An HTTP response that refuses a request: status, stable slug and title of the cause, detail of this case."""

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
        """Extension members of the document, for programs."""

    def to_document(self) -> dict[str, object]:
        """Return the RFC 9457 document."""
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
    """The request line, a header or the framing of the body is not valid HTTP."""

    status = 400
    slug = "malformed-request"
    title = "The request is not valid HTTP"


class InvalidCredential(Problem):
    """A missing, unknown, revoked or expired credential."""

    status = 401
    slug = "invalid-credential"
    title = "Missing or invalid credential"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class SignInRefused(InvalidCredential):
    """A wrong e-mail address, password or code. Does not say which of address and password is wrong."""

    slug = "sign-in-refused"
    title = "Sign-in refused"


class SecondFactorRequired(InvalidCredential):
    """The password is right, and the person has a second factor: the request needs a code as well."""

    slug = "second-factor-required"
    title = "A code of the second factor is required"


class BadSignature(Problem):
    """A webhook without a valid signature by the repository's secret."""

    status = 401
    slug = "bad-signature"
    title = "Bad signature"


class MissingScope(Problem):
    """A valid API token without the scope that the operation needs."""

    status = 403
    slug = "missing-scope"
    title = "Token lacks the scope"


class CrossSiteRequest(Problem):
    """A request with a session cookie that a page of another origin has sent."""

    status = 403
    slug = "cross-site-request"
    title = "The request comes from another site"


class SessionRequired(Problem):
    """A valid API token, for an operation that only a person who is signed in may use."""

    status = 403
    slug = "session-required"
    title = "Only for people who are signed in"


class DeployNotAllowed(Problem):
    """The token's owner may not use this part of Deploy in the project."""

    status = 403
    slug = "deploy-not-allowed"
    title = "May not use Deploy in the project"


class NotAllowed(Problem):
    """The token's owner may not do this in the account."""

    status = 403
    slug = "not-allowed"
    title = "The role does not allow this"


class OriginNotRegistered(Problem):
    """A page whose origin is not registered for the site."""

    status = 403
    slug = "origin-not-registered"
    title = "Origin is not registered for the site"


class NotFound(Problem):
    """The caller's account has nothing at this URL."""

    status = 404
    slug = "not-found"
    title = "Not found"


class MethodNotAllowed(Problem):
    """The URL exists, but not for this method."""

    status = 405
    slug = "method-not-allowed"
    title = "Method not allowed"


class RequestTimeout(Problem):
    """The body did not arrive in time."""

    status = 408
    slug = "request-timeout"
    title = "The request took too long to arrive"


class DeployRunning(Problem):
    """The environment has an unfinished deployment, which `active_deployment_id` names."""

    status = 409
    slug = "deploy-running"
    title = "A deploy is running"


class ReviewExpired(Problem):
    """A configuration review that is older than 15 minutes."""

    status = 409
    slug = "review-expired"
    title = "The review has expired"


class ReviewApplied(Problem):
    """A configuration review that was applied already; `application_id` names its configuration run."""

    status = 409
    slug = "review-applied"
    title = "The review was applied already"


class ProjectChanged(Problem):
    """The project has changed since the review was planned."""

    status = 409
    slug = "project-changed"
    title = "The project has changed since the review"


class ConfigurationRunInProgress(Problem):
    """The project has an unfinished configuration run, which `application_id` names."""

    status = 409
    slug = "application-running"
    title = "An application is running"


class ConfigurationStepConflict(Problem):
    """A step of a configuration run that cannot be canceled, or retried, in its current status."""

    status = 409
    slug = "operation-not-possible"
    title = "Not possible for this operation now"


class RepositoryNotReady(Problem):
    """A webhook's deploy is not possible now: its environment or project is not ready."""

    status = 409
    slug = "repository-not-ready"
    title = "The repository cannot deploy"


class Conflict(Problem):
    """The operation is not possible in the current state; `detail` says what has to change first."""

    status = 409
    slug = "conflict"
    title = "Not possible in the current state"


class NameTaken(Conflict):
    """Another object has the name or slug already."""

    slug = "name-taken"
    title = "The name is taken"


class LastOwner(Conflict):
    """The person is the only owner of the account, and an account always has one."""

    slug = "last-owner"
    title = "An account always has an owner"


class SecondPersonRequired(Conflict):
    """The change or the decision needs a second person; `detail` says how the two proceed."""

    slug = "second-person-required"
    title = "A second person has to agree"


class CommitUnknown(Conflict):
    """The commit of a deployment is not known yet, and the approval does not name one."""

    slug = "commit-unknown"
    title = "The commit is not known yet"


class InputsChanged(Conflict):
    """The approver has not seen the present inputs of the deployment: the approval needs their digest."""

    slug = "inputs-changed"
    title = "The inputs of the deployment have changed"


class PreconditionFailed(Problem):
    """`If-Match` names another version than the current one: somebody has changed the object since it was read."""

    status = 412
    slug = "precondition-failed"
    title = "The object has changed"


class PayloadTooLarge(Problem):
    """A request over a limit of size or count."""

    status = 413
    slug = "payload-too-large"
    title = "Payload too large"


class UnsupportedMediaType(Problem):
    """A content type or content encoding that the operation does not support."""

    status = 415
    slug = "unsupported-media-type"
    title = "Unsupported media type"


class InvalidInput(Problem):
    """Validation failed; `errors` lists each invalid field."""

    status = 422
    slug = "validation-failed"
    title = "Validation failed"


def invalid_field(field: str, message: str) -> InvalidInput:
    """Return the error for one invalid field; `message` is its rule: "must be …"."""
    return invalid_fields([FieldError(field, message)])


def invalid_fields(errors: Sequence[FieldError]) -> InvalidInput:
    """Return the error for these invalid fields."""
    return InvalidInput(
        "Nothing was changed. Fix the fields listed below and send the request again.", errors=errors
    )


@contextmanager
def collect_errors(errors: list[FieldError]) -> Iterator[None]:
    """Add the fields of an `InvalidInput` that the body raises to `errors`, so that all are reported at once."""
    try:
        yield
    except InvalidInput as problem:
        errors += problem.errors


class PayloadNotUsable(InvalidInput):
    """A webhook without a header or field that its event needs."""

    slug = "payload-not-usable"
    title = "The payload is not usable"


class EnvironmentLocked(InvalidInput):
    """Somebody has locked the environment."""

    slug = "environment-locked"
    title = "The environment is locked"


class OutsideWindow(InvalidInput):
    """The environment's deploy window is closed now."""

    slug = "outside-window"
    title = "Outside the deploy window"


class EnvironmentNotReady(InvalidInput):
    """The environment lacks something that a deploy needs."""

    slug = "environment-not-ready"
    title = "The environment is not ready"


class NotRetained(InvalidInput):
    """The deployment has no release, or its release was removed."""

    slug = "not-retained"
    title = "The release is not retained"


class NotPromotable(InvalidInput):
    """The deployment cannot be promoted to that environment."""

    slug = "not-promotable"
    title = "The deployment cannot be promoted"


class HeadTooLarge(Problem):
    """The request line and the headers together exceed the limit."""

    status = 431
    slug = "head-too-large"
    title = "The head of the request is too large"


class MethodNotImplemented(Problem):
    """A method that HTTP does not define."""

    status = 501
    slug = "method-not-implemented"
    title = "Unknown method"


class RateLimited(Problem):
    """The account's ingest rate is exceeded; `Retry-After` says when to retry."""

    status = 429
    slug = "rate-limited"
    title = "Over the ingest rate"


class TooManyRequests(Problem):
    """Too many requests or reports of one account or address; `Retry-After` says when to retry."""

    status = 429
    slug = "too-many-requests"
    title = "Too many requests"


class Unavailable(Problem):
    """A needed part is unavailable now. Nothing was stored, and the caller may resend the request."""

    status = 503
    slug = "unavailable"
    title = "Temporarily unavailable"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


class StorageUnavailable(Exception):
    """An engine (log, column store, counter, directory) is unreachable or full. Nothing was changed; retry later."""


class LogFull(StorageUnavailable):
    """The event log has reached its size limit. Space becomes free as the consumers catch up."""


class RecordTooLarge(StorageUnavailable):
    """The brokers take no record of this size. Nothing was stored; a retry would not help."""


class InsertTooLate(StorageUnavailable):
    """The column store refused an insert because its deadline had passed. Nothing was stored."""


class RowsRefused(Exception):
    """The column store will never accept these rows: a retry is useless."""


class PartitionLost(Exception):
    """Another consumer owns the partition now: abandon the chunk and insert nothing."""


class RecordsRemoved(Exception):
    """The log has removed records before they were read. Continue at `next_offset`."""

    def __init__(self, partition: int, start: int, next_offset: int) -> None:
        super().__init__(f"partition {partition}: records {start} to {next_offset - 1} are gone")
        self.next_offset = next_offset
