"""Describes a stack that has not stored all acknowledged events: positions of consumers, members of groups, and
readiness of parts."""

import asyncio
import urllib.error
import urllib.request

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import KafkaError

from loadtests.stack.parts import Part
from loadtests.stack.stack import Stack
from pipeline_contracts import topics

_ANSWER_SECONDS = 15.0
_LOG_LINES = 15


async def explain(stack: Stack) -> str:
    """Return a description of each consumer group (its members, and for each partition the position, the plan and the
    end), of the readiness of each part, and of the ends of the consumers' log files. Engines that are unavailable are
    named."""
    lines = ["readiness:"]
    lines += [f"  {part.name}: {await asyncio.to_thread(_readiness, part)}" for part in stack.parts()]
    try:
        async with asyncio.timeout(_ANSWER_SECONDS * len(topics.ALL_TOPICS)):
            lines += await _explain_groups(stack.kafka.bootstrap)
    except (KafkaError, OSError) as error:
        lines.append(f"the brokers do not answer: {error!r}")
    for part in stack.consumers:
        lines.append(f"end of {part.log}:")
        lines += [f"  {line}" for line in part.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]]
    return "\n".join(lines)


def _readiness(part: Part) -> str:
    if part.process is None or part.process.poll() is not None:
        return "not running"
    try:
        with urllib.request.urlopen(f"{part.url}{part.health}", timeout=_ANSWER_SECONDS) as answer:
            return f"{answer.status} {answer.read(1000).decode(errors='replace')}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read(1000).decode(errors='replace')}"
    except OSError as error:
        return f"no answer: {error}"


async def _explain_groups(bootstrap: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=int(1000 * _ANSWER_SECONDS))
    reader = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    lines: list[str] = []
    await admin.start()
    try:
        await reader.start()
        try:
            for topic in topics.ALL_TOPICS:
                lines += await _explain_group(admin, reader, topic)
        finally:
            await reader.stop()
    finally:
        await admin.close()
    return lines


async def _explain_group(admin: AIOKafkaAdminClient, reader: AIOKafkaConsumer, topic: str) -> list[str]:
    group = f"{topics.CONSUMER_GROUP}.{topic}"
    (answer,) = await admin.describe_consumer_groups([group])
    code, _, state, _, _, members, *_ = answer.groups[0]
    lines = [f"group {group}: {state} (error {code}), {len(members)} members"]
    owners: dict[int, str] = {}
    for member, _, host, _, assignment, *_ in members:
        assigned = ConsumerProtocol.ASSIGNMENT.decode(assignment).partitions() if assignment else []
        owners |= {part.partition: member[-8:] for part in assigned}
        lines.append(f"  member …{member[-8:]} at {host}: {sorted(part.partition for part in assigned)}")
    positions = await admin.list_consumer_group_offsets(group)
    (described,) = await admin.describe_topics([topic])
    places = [TopicPartition(topic, partition["partition"]) for partition in described["partitions"]]
    ends = await reader.end_offsets(places)
    for place in sorted(places):
        found = positions.get(place)
        at, plan = (found.offset, found.metadata) if found else (0, "")
        if ends[place] == at and not plan.partition("@")[0]:
            continue
        owner = owners.get(place.partition, "nobody")
        lines.append(
            f"  {place.partition}: position {at}, plan {plan or 'none'}, end {ends[place]}, "
            f"{ends[place] - at} left, owned by {owner}"
        )
    return lines
