"""`pharos environment resume` and what `show` says before it, on engines where nothing else runs."""

from tests.support.commands import Run, ask, refused, tell
from tests.support.followed import Write, carry_out, deploy, make_place


def test_pushes_are_resumed_after_a_rollback(on_engines: Run, write: Write) -> None:
    place = make_place(on_engines)
    told = tell(on_engines, "environment", "resume", place)
    assert told == f"Environment {place} was not held; nothing was changed.\n"
    first, _ = (deploy(on_engines, write, place) for _ in range(2))
    shown = tell(on_engines, "environment", "show", place)
    assert "rolled back" not in shown
    carry_out(write, ask(on_engines, "rollback", place, "--to", str(first), "--detach")["id"])
    shown = " ".join(tell(on_engines, "environment", "show", place).split())
    assert (
        f"held rolled back: pushes do not deploy here; `pharos environment resume {place}` lets them again"
    ) in shown
    assert ask(on_engines, "environment", "show", place)["held"] is True
    told = tell(on_engines, "environment", "resume", place)
    assert told == f"Environment {place} takes pushes again: the next one deploys.\n"
    assert ask(on_engines, "environment", "show", place)["held"] is False
    assert ask(on_engines, "environment", "resume", place)["resumed"] is False
    assert ask(on_engines, "audit", "--limit", "1")[0]["action"] == "environment.resume"
    assert refused(on_engines, "environment", "resume", "nowhere") == (
        "There is no environment nowhere; `pharos environment list` shows all."
    )
