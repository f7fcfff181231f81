"""The texts of heartbeat events."""

from dataclasses import replace

from pipeline_contracts.heartbeat_alerts import take_alert
from pipeline_contracts.heartbeat_runs import Run
from tests.pipeline_contracts.test_heartbeat_states import NEW, T0


def test_a_failed_run_says_how_its_output_ended() -> None:
    for output, told in (
        ("pg_dump: error\n", "pg_dump: error"),
        ("x" * 9000 + "END", "…" + "x" * 347 + "END"),
        (None, None),
    ):
        heartbeat = replace(NEW, state="down", since_ms=T0, failures_in_row=1)
        run = Run("a", T0 - 1, failed_ms=T0, exit_status=1, output=output)
        alert = take_alert(heartbeat, [run])
        assert alert is not None and alert.facts.get("output") == told
