"""`pharos environment resume` and `show` after a rollback, on engines where nothing else runs."""

from tests.support.commands import Run, ask, refused, tell
from tests.support.followed import Write, carry_out, deploy, make_place


def test_pushes_are_resumed_after_a_rollback(on_engines: Run, write: Write) -> None:
    environment_path = make_place(on_engines)
    output = tell(on_engines, "environment", "resume", environment_path)
    assert output == f"Environment {environment_path} was not held; nothing was changed.\n"
    first, _ = (deploy(on_engines, write, environment_path) for _ in range(2))
    shown = tell(on_engines, "environment", "show", environment_path)
    assert "rolled back" not in shown
    carry_out(write, ask(on_engines, "rollback", environment_path, "--to", str(first), "--detach")["id"])
    shown = " ".join(tell(on_engines, "environment", "show", environment_path).split())
    assert (
        f"held rolled back: pushes do not deploy here; `pharos environment resume {environment_path}` lets them again"
    ) in shown
    assert ask(on_engines, "environment", "show", environment_path)["held"] is True
    output = tell(on_engines, "environment", "resume", environment_path)
    assert output == f"Environment {environment_path} takes pushes again: the next one deploys.\n"
    assert ask(on_engines, "environment", "show", environment_path)["held"] is False
    assert ask(on_engines, "environment", "resume", environment_path)["resumed"] is False
    assert ask(on_engines, "audit", "--limit", "1")[0]["action"] == "environment.resume"
    assert refused(on_engines, "environment", "resume", "nowhere") == (
        "There is no environment nowhere; `pharos environment list` shows all."
    )
