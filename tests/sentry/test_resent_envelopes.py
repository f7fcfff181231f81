"""An envelope that is sent again stores nothing twice, in one chunk of the log and in several."""

from typing import Any

from tests.ingest_edge.sentry.test_accept import EVENT, LOGS, auth
from tests.ingest_edge.sentry.test_convert import TRANSACTION, envelope
from tests.support.otlp_pipeline import OtlpPipeline

_SPAN = {
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "span_id": "eee19b7ec3c1b174",
    "start_timestamp": 1700000000,
    "timestamp": 1700000001,
}
_OUTCOMES = (
    "SELECT outcome, count() AS batches, sum(received) AS records FROM pharos.ingest_receipts "
    "WHERE environment_id = {environment:String} GROUP BY outcome ORDER BY outcome"
)
_EVENTS = "SELECT id FROM pharos.telemetry_events WHERE environment_id = {environment:String}"


async def _send(pipeline: OtlpPipeline, *items: tuple[str, Any]) -> None:
    url = f"{pipeline.origin}/api/1/envelope/"
    async with pipeline.session.post(url, data=envelope(*items), headers=auth(pipeline.key)) as response:
        assert response.status == 200


async def test_envelope_is_stored_once(pipeline: OtlpPipeline) -> None:
    items = [EVENT, ("transaction", TRANSACTION), ("span", _SPAN), LOGS, ("session", {})]
    # Twice in one chunk, and again once the first is stored.
    for sent in range(3):
        await _send(pipeline, *items)
        if sent:
            await pipeline.consume()
    # Records without identities, like those of OTLP senders: each request is stored.
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "hi"}}]}]}]}
    for _ in range(2):
        assert (await pipeline.post("logs", logs)).status == 200
    await _send(pipeline, LOGS)
    await pipeline.consume()

    assert len(await pipeline.query(_EVENTS)) == 1
    assert len(await pipeline.rows("otel_traces")) == 4
    assert len(await pipeline.rows("otel_logs")) == 3 + 2
    outcomes = {row["outcome"]: (row["batches"], row["records"]) for row in await pipeline.query(_OUTCOMES)}
    # An event, a transaction of three spans, a span and three log records; sent again twice, the log records thrice.
    assert outcomes == {"stored": (4, 8), "duplicate": (9, 2 * 8 + 3)}
