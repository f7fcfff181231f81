"""When the steps of a deployment began, through interruptions."""

from datetime import UTC, datetime, timedelta

from control_domain.deployments.progress import describe_steps, reach_step
from control_domain.tables.deployments import Deployment
from pipeline_contracts.deploy_states import DeploymentStep

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_steps_keep_their_begin_and_end_with_the_next() -> None:
    deployment = Deployment(finished_at=None)
    assert describe_steps(deployment) == []
    # An interrupted build begins again with the check-out, and `start` is recorded twice.
    for second, name in enumerate(["check_out", "build", "check_out", "build", "start", "start", "switch"]):
        reached = reach_step(deployment, DeploymentStep(name), NOON + timedelta(seconds=second))
        deployment.step, deployment.progress = reached["step"], reached["progress"]
    deployment.finished_at = NOON + timedelta(seconds=9)
    times = [
        (step["step"], step["started_at"][17:19], (step["ended_at"] or "")[17:19])
        for step in describe_steps(deployment)
    ]
    assert times == [
        ("check_out", "00", "03"),
        ("build", "03", "04"),
        ("start", "04", "06"),
        ("switch", "06", "09"),
    ]
