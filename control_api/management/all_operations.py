"""The modules of operations, in the order of the reference."""

from collections.abc import Sequence

from control_api.management import (
    approvals,
    configurations,
    deliveries,
    deployments,
    environments,
    goals,
    heartbeats,
    ingest_keys,
    monitor_keys,
    previews,
    processes,
    projects,
    queues,
    repositories,
    sites,
    variables,
    workflows,
)
from control_api.operations.router import OperationRouter

ROUTERS: Sequence[OperationRouter] = (
    projects.operations,
    environments.operations,
    variables.operations,
    approvals.operations,
    deployments.operations,
    repositories.operations,
    deliveries.operations,
    previews.operations,
    processes.operations,
    workflows.operations,
    configurations.operations,
    heartbeats.operations,
    queues.operations,
    monitor_keys.operations,
    ingest_keys.operations,
    sites.operations,
    goals.operations,
)
