"""The undocumented parts of aiokafka that the log on Kafka depends on. A failure here comes from another version of
aiokafka: read decisions/0023 and decisions/0055 before the pin in pyproject.toml changes.
"""

import ast
import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState

from storage_backends.event_log import kafka_producer

_PACKAGE = Path(kafka_producer.__file__).parent
_VERSION = f"aiokafka {version('aiokafka')}"
_USED = {
    AIOKafkaAdminClient: ("_client", "_send_request"),
    AIOKafkaClient: ("_sync_task",),
    AIOKafkaConsumer: ("_client", "_coordinator", "_fetcher", "_subscription"),
    FetchResult: ("_partition_records", "_update_position", "check_assignment"),
    Fetcher: ("_fetch_task", "_notify", "_records", "_wait_consume_future"),
    GroupCoordinator: ("_commit_refresh_task", "_coordination_task", "_heartbeat_task", "check_errors"),
    SubscriptionState: ("reassignment_in_progress",),
}


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in _USED.items() for name in names]
)
def test_aiokafka_still_has_each_undocumented_name(owner: type, name: str) -> None:
    assert re.search(rf"\b{name}\b", inspect.getsource(owner)), f"{_VERSION} has no {owner.__name__}.{name}"


def test_the_list_of_undocumented_names_is_complete() -> None:
    listed = {name for names in _USED.values() for name in names}
    for path in sorted(_PACKAGE.glob("kafka*.py")):
        tree = ast.parse(path.read_text())
        own = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for node in ast.walk(tree):
            if (
                not isinstance(node, ast.Attribute)
                or not node.attr.startswith("_")
                or node.attr.startswith("__")
            ):
                continue
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            assert of_self or node.attr in own | listed, (
                f"{path.name}:{node.lineno} uses {node.attr}; add it to _USED"
            )
