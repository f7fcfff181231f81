"""Documents of webhook deliveries and waiting pushes, as the public API returns them."""

from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta

from control_domain.projects.describe import EnvironmentSummary, summarize_environment
from control_domain.tables.webhooks import WebhookDelivery
from control_domain.webhooks.deliveries import read_body, read_headers
from control_domain.webhooks.listing import ListedPush
from pipeline_contracts.times import format_time


class DeliveryDocument(TypedDict):
    """A webhook request of a Git host with a valid signature, and the response to it. Kept for 7 days."""

    id: int
    repository_id: int | None
    kind: Annotated[str, Meta(description="The Git host: `github`, `gitlab` or `bitbucket`.")]
    event: Annotated[str, Meta(description="The host's name of the event: `push`, `Merge Request Hook`.")]
    delivery: Annotated[
        str,
        Meta(description="The host's ID of the delivery, or the digest of its body if the host sends none."),
    ]
    http_status: int
    status: Annotated[
        str,
        Meta(
            description="`status` of the response, such as `queued` or `ignored`; of a refused delivery the problem's "
            "type without `/problems/`."
        ),
    ]
    deployment_id: Annotated[int | None, Meta(description="The deployment that was queued.")]
    reason: Annotated[str | None, Meta(description="Why nothing was done, or not yet.")]
    replay_of: Annotated[int | None, Meta(description="The delivery that this one repeats.")]
    received_at: str


class DeliveryWithPayload(DeliveryDocument):
    """A delivery with the headers and the body that the host sent."""

    headers: Annotated[
        dict[str, list[str]],
        Meta(
            description="All values of each header by its name in lower case. Signatures, tokens and "
            "other secrets are left out."
        ),
    ]
    body: Annotated[
        str | None,
        Meta(
            description="The received text. Null once it was removed for newer deliveries: each webhook keeps 64 MiB."
        ),
    ]


class WaitingPushDocument(TypedDict):
    """A push that is queued once the active deployment of its environment is finished."""

    id: int
    environment: EnvironmentSummary
    repository_id: int
    branch: Annotated[str, Meta(description="The branch, or the ref of a fork's pull request.")]
    revision: Annotated[str | None, Meta(description="The pushed commit, which may be abbreviated.")]
    trigger: Literal["push", "pull_request"]
    since: str


def describe_delivery(delivery: WebhookDelivery) -> DeliveryDocument:
    return {
        "id": delivery.id,
        "repository_id": delivery.repository_id,
        "kind": delivery.kind,
        "event": delivery.event,
        "delivery": delivery.delivery,
        "http_status": delivery.http_status,
        "status": delivery.answer,
        "deployment_id": delivery.deployment_id,
        "reason": delivery.reason,
        "replay_of": delivery.replay_of,
        "received_at": format_time(delivery.received_at),
    }


def describe_delivery_with_payload(delivery: WebhookDelivery) -> DeliveryWithPayload:
    body = read_body(delivery)
    return {
        **describe_delivery(delivery),
        "headers": {name: list(values) for name, values in read_headers(delivery).items()},
        "body": None if body is None else body.decode(errors="replace"),
    }


def describe_waiting_push(listed: ListedPush) -> WaitingPushDocument:
    push = listed.push
    return {
        "id": push.id,
        "environment": summarize_environment(listed.environment),
        "repository_id": push.repository_id,
        "branch": push.branch,
        "revision": push.pushed_revision,
        "trigger": cast(Any, push.trigger),
        "since": format_time(push.created_at),
    }
