"""The resources and limits that `assemble_control_plane` gives to the application."""

from typing import Any, cast

from control_api.limits.report_queue import report_limits
from control_api.limits.request_limits import RequestLimiter, RequestLimits
from pipeline_contracts.settings import Settings
from tests.support.serve_control import VARIABLE_KEYS
from wiring.control_plane import assemble_control_plane


def test_reports_have_their_own_store_and_queue() -> None:
    settings = Settings(max_reports_at_once=3, max_requests_at_once=5, git_app_secret="secret")
    reports, receipts, nothing = cast(Any, object()), cast(Any, object()), cast(Any, None)
    state = assemble_control_plane(
        settings,
        sessions=nothing,
        directory=nothing,
        store=receipts,
        report_store=reports,
        receipt_key=b"key",
        sealing_keys=VARIABLE_KEYS,
    ).app.state
    assert state.report_store is reports
    assert state.column_store is receipts
    assert state.report_queue.limits == report_limits(3)
    assert isinstance(state.request_limiter, RequestLimiter)
    assert state.request_limiter._limits == RequestLimits.from_settings(settings)
    assert state.git_app_secret == "secret"
