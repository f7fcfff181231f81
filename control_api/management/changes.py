"""Notifications of changes for live pages: `/v1/changes`."""

from typing import Annotated, TypedDict, cast

from fastapi import Response
from msgspec import Meta, Struct

from control_api.authentication import require_scope
from control_api.changes.account_watch import Follower
from control_api.changes.change_streams import ChangeStreams
from control_api.changes.stream_changes import ChangeStreamResponse
from control_api.live_logs.stream_log import accepts_event_stream
from control_api.operations.access import At, at_account
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.operations import Caller
from control_domain.changes.topics import SCOPE_OF_TOPIC, STORED_TOPICS, TOPICS, Topic
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import FieldError, InvalidInput

operations = OperationRouter("Overview")

_Account = Annotated[At[Account], at_account("account:read")]


class ChangesQuery(Struct, kw_only=True):
    """The changes to follow."""

    topics: Annotated[
        str,
        Meta(
            max_length=300,
            description="Topics, separated by commas. By default all topics that the scopes allow, "
            "except `exceptions`, `events` and `pageviews`.",
            examples=["deployments,heartbeats"],
        ),
    ] = ""


class FollowedTopics(TypedDict):
    """The topics that a stream of this request follows."""

    topics: list[Topic]


@operations.get("/v1/changes", streams=True, answer=FollowedTopics)
async def follow_changes(
    at: _Account, params: Annotated[ChangesQuery, query(ChangesQuery)]
) -> FollowedTopics | Response:
    """Follow changes.

    With `Accept: text/event-stream`, an event `change` names a topic of the account in which something has changed:
    `{"topic": "deployments", "at": "…"}`. It does not say what has changed: read the data again. Several changes of a
    topic within a second are one event; changes of `exceptions`, `events` and `pageviews` are found within 5 seconds.
    Each topic needs the scope that reads it. A stream ends after an hour, and within 15 seconds after the token or
    session has ended. A person may have 50 streams at once.

    Without that header, the response lists the topics that the stream would follow.
    """
    topics = _read_topics(params.topics, at.caller)
    if not accepts_event_stream(at.request):
        return {"topics": [topic for topic in TOPICS if topic in topics]}
    streams: ChangeStreams = at.request.app.state.change_streams
    streams.check_capacity(at.account.id, at.caller.person.id)
    follower = Follower(at.account.id, at.caller.person.id, topics)
    return ChangeStreamResponse(at.request, at.make_reader_check(), follower)


def _read_topics(text: str, caller: Caller) -> frozenset[Topic]:
    """Return the topics to follow. Raises `InvalidInput` and `MissingScope`."""
    if not text:
        return frozenset(
            topic for topic in TOPICS if topic not in STORED_TOPICS and SCOPE_OF_TOPIC[topic] in caller.scopes
        )
    named = {name.strip() for name in text.split(",")}
    unknown = sorted(named - {*TOPICS})
    if unknown:
        raise InvalidInput(
            "Fix the query parameters listed below and send the request again.",
            errors=[FieldError("topics", f"{name!r} is not one of: {', '.join(TOPICS)}") for name in unknown],
        )
    topics = cast(frozenset[Topic], frozenset(named))
    for topic in sorted(topics):
        require_scope(caller, SCOPE_OF_TOPIC[topic])
    return topics
