"""`pharos environment resume` and `show` after a rollback, on engines where nothing else runs."""

from tests.support.command_deployments import (
    WriteRows,
    deploy_and_finish,
    finish_deployment,
    make_environment,
)
from tests.support.commands import RunCommand, expect_refusal, run_json, run_text


def test_pushes_are_resumed_after_a_rollback(on_engines: RunCommand, write: WriteRows) -> None:
    environment_path = make_environment(on_engines)
    output = run_text(on_engines, "environment", "resume", environment_path)
    assert output == f"Environment {environment_path} was not held; nothing was changed.\n"
    first, _ = (deploy_and_finish(on_engines, write, environment_path) for _ in range(2))
    shown = run_text(on_engines, "environment", "show", environment_path)
    assert "rolled back" not in shown
    finish_deployment(
        write, run_json(on_engines, "rollback", environment_path, "--to", str(first), "--detach")["id"]
    )
    shown = " ".join(run_text(on_engines, "environment", "show", environment_path).split())
    assert (
        f"held rolled back: pushes do not deploy here; `pharos environment resume {environment_path}` lets them again"
    ) in shown
    assert run_json(on_engines, "environment", "show", environment_path)["held"] is True
    output = run_text(on_engines, "environment", "resume", environment_path)
    assert output == f"Environment {environment_path} takes pushes again: the next one deploys.\n"
    assert run_json(on_engines, "environment", "show", environment_path)["held"] is False
    assert run_json(on_engines, "environment", "resume", environment_path)["resumed"] is False
    assert run_json(on_engines, "audit", "--limit", "1")[0]["action"] == "environment.resume"
    assert expect_refusal(on_engines, "environment", "resume", "nowhere") == (
        "There is no environment nowhere; `pharos environment list` shows all."
    )
