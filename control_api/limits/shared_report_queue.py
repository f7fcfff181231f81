"""Runs reports for readers of shared links, so that these never use up the slots of people with accounts."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request

from control_api.limits.fair_queue import FairQueue, QueueLimits
from control_api.limits.kept_answers import KeptAnswers
from control_api.limits.report_queue import await_while_connected, run_in_queue, take_turn
from pipeline_contracts.client_address import network_of

T = TypeVar("T")

_MAX_PER_ADDRESS = 2
_MAX_IN_QUEUE = 64
_MAX_WAITING_PER_KEY = 16
_MAX_WAIT_SECONDS = 10.0
# Shorter than the longest wait for a report.
_QUERY_SECONDS = 8.0
# The key of all links together in the queue of reports.
_OWNER = "links to reports"


class SharedReportQueue:
    """Schedules shared reports by link and by address. Shared reports of all accounts together get a third of the
    slots of the queue of reports, at least one. With two or more slots, one is always left for people with accounts.

    Each link has one report in progress, so that many readers of one link do not delay readers of other links. Each
    address has two reports in the queue, so that one reader with many links does not use all slots.
    """

    def __init__(self, report_limits: QueueLimits) -> None:
        self.by_address = _make_queue(_MAX_IN_QUEUE, _MAX_PER_ADDRESS)
        self.kept = KeptAnswers()
        self.by_link = _make_queue(max(1, report_limits.max_running // 3), 1)


def _make_queue(max_running: int, max_running_per_key: int) -> FairQueue:
    return FairQueue(
        QueueLimits(max_running, max_running_per_key, _MAX_IN_QUEUE, _MAX_WAITING_PER_KEY, _MAX_WAIT_SECONDS)
    )


async def run_shared_report(
    request: Request, address: str, share_id: int, make: Callable[[], Awaitable[T]], *, is_kept: bool
) -> T:
    """Wait for a slot of the caller's address, of the link and of all links, then return the result of `make`, whose
    limited queries share 8 s. With `is_kept`, equal requests within 30 s share one result. Raises the errors of
    `run_queued_report`."""
    shared: SharedReportQueue = request.app.state.shared_report_queue

    async def run() -> T:
        async with (
            take_turn(shared.by_address, network_of(address), "this address"),
            take_turn(shared.by_link, f"link {share_id}", "this link"),
        ):
            return await run_in_queue(request.app.state.report_queue, _OWNER, make, _QUERY_SECONDS)

    if not is_kept:
        return await await_while_connected(request, run())
    key = share_id, request.url.path, request.url.query
    return await await_while_connected(request, shared.kept.find_or_make(key, run))
