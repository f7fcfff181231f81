"""The modules of operations, in the order of the reference."""

from collections.abc import Sequence

from control_api.management import deliveries, projects, repositories
from control_api.operations.router import OperationRouter

ROUTERS: Sequence[OperationRouter] = (
    projects.operations,
    repositories.operations,
    deliveries.operations,
)
