"""A leap second is taken everywhere a time is, and lies in the log as the second that follows."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from consumers.transforms.heartbeats_topic import HeartbeatsTopic
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.monitors import QueueSnapshot
from pipeline_contracts.telemetry import TelemetryBatch

LEAP = "2016-12-31T23:59:60Z"
STORED = datetime(2017, 1, 1, tzinfo=UTC)
RUN = "0190b5a4-0000-7000-8000-000000000001"


async def test_ingest(edge):
    event = {"type": "log", "timestamp": LEAP, "attributes": {"timestamp": LEAP}}
    assert (await edge.post({"batch_id": "b", "events": [{"type": "job"}, event]})).status == 202
    (record,) = await edge.appended()
    batch = msgspec.json.decode(record.value, type=TelemetryBatch)
    assert [stored.timestamp for stored in batch.events] == [None, STORED]
    # What the caller keeps for itself is not a time of ours.
    assert json.loads(record.value)["events"][1]["attributes"] == {"timestamp": LEAP}


async def test_another_fault_is_still_named_and_the_leap_second_is_none(edge):
    bad = {"type": "log", "timestamp": "2016-12-31T23:59:61Z"}
    answer = await edge.post({"batch_id": "b", "events": [{"type": "log", "timestamp": LEAP}, bad]})
    assert (answer.status, answer.fields()) == (422, ["events[1].timestamp"])
    assert edge.stored_records() == 0


async def test_queue_snapshots(edge):
    key = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="queue/7")
    headers = {"Authorization": f"Bearer {key}"}
    for observed_at, status in ((LEAP, 202), ("2017-01-01T00:59:60+01:00", 422)):
        body = {"snapshot_id": RUN, "observed_at": observed_at, "pending": 1}
        answer = await edge.request("POST", "/api/v1/queues/7/snapshots", json=body, headers=headers)
        assert answer.status == status
    (record,) = await edge.appended(topics.QUEUES)
    assert msgspec.json.decode(record.value, type=QueueSnapshot).observed_at == STORED


async def test_page_views(edge):
    site = await edge.open_site("https://shop.example")
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=2)
    event = {"id": RUN, "type": "pageview", "path": "/", "occurred_at": f"{minute:%Y-%m-%dT%H:%M}:60Z"}
    answer = await edge.collect(site, [event])
    assert (answer.status, answer.document()) == (202, {"data": {"accepted": 1, "dropped": 0}})
    ((_, collected),) = await edge.collected()
    assert [one.occurred_ms for one in collected.events] == [(int(minute.timestamp()) + 60) * 1000]


async def test_a_run_has_one_name_however_its_uuid_is_written(edge):
    """The consumer reads the UUID, not its text: capitals and a UUID without hyphens pair with the same run."""
    key = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="heartbeat/7")
    spellings = (RUN, RUN.upper(), RUN.replace("-", ""), RUN.replace("-", "").upper())
    for run_id, signal in zip(spellings, ("start", "success", "failure", "start"), strict=True):
        body = {"run_id": run_id, "signal": signal}
        headers = {"Authorization": f"Bearer {key}"}
        assert (await edge.request("POST", "/api/v1/heartbeats/7", json=body, headers=headers)).status == 202
    for run_id in (f"{{{RUN}}}", f"urn:uuid:{RUN}", RUN[:-1], RUN.replace("-", "", 1)):
        answer = await edge.request(
            "POST", "/api/v1/heartbeats/7", json={"run_id": run_id, "signal": "start"}, headers=headers
        )
        assert (answer.status, answer.fields()) == (422, ["run_id"])
    records = await edge.appended(topics.HEARTBEATS)
    # Reading a record needs no states.
    topic = HeartbeatsTopic(cast(Any, None))
    assert {topic.decode(record).run_id for record in records} == {RUN}
    assert len(records) == 4
