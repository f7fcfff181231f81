"""Where a deployment that is followed is shown: a terminal with a line that is alive, a plain stream, or JSON."""

import json
import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from operator_cli.durations import show_duration
from operator_cli.plain_text import plain
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep

MARK = "» "
"""Before each line that Pharos itself says; what steps print has none."""
_LONGEST_LINE = 20_000
_STEPS = {
    DeploymentStep.CHECK_OUT: "checking out",
    DeploymentStep.BUILD: "building",
    DeploymentStep.RELEASE: "release steps",
    DeploymentStep.START: "starting",
    DeploymentStep.SWITCH: "switching",
}
_STATUSES = {
    DeploymentStatus.QUEUED: "queued",
    DeploymentStatus.DEPLOYING: "checking out",
    DeploymentStatus.RUNNING: "starting",
}


class FollowScreen:
    """Takes what the action "deployments/follow" gives; nothing of it acts on a terminal."""

    def __init__(self, *, as_json: bool, is_live: bool = True) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._is_for_people = self._console.is_terminal and not as_json
        self._errors = Console(highlight=False, soft_wrap=True, stderr=True)
        self._status = Status("", console=self._console) if is_live and self._is_for_people else None
        self.last_words = ""
        """The last line that Pharos itself has said."""

    def __enter__(self) -> "FollowScreen":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, seen: dict[str, Any]) -> None:
        """Its lines that are new, and how far it is."""
        for line in seen["lines"]:
            if line["stream"] == "system":
                self.last_words = plain(line["text"], most=_LONGEST_LINE)
            self._show_line(line)
        sys.stdout.flush()
        if self._status is not None:
            self._status.update(Text(told_progress(seen["deployment"])))

    def _show_line(self, line: dict[str, Any]) -> None:
        if self._as_json:
            print(json.dumps({name: line[name] for name in ("at", "stream", "text")}))
            return
        text, style = plain(line["text"], most=_LONGEST_LINE), ""
        if line["stream"] == "system":
            text, style = MARK + text, "cyan"
        if self._is_for_people:
            self._console.print(Text(text, style=style))
        else:
            print(text)

    def warn(self, text: str) -> None:
        """Tell a person something beside the log."""
        # Through rich where there is a live line: it would be written over.
        (self._errors if self._status is None else self._console).print(Text(f"pharos: {text}"))


def told_progress(deployment: dict[str, Any]) -> str:
    """Where it goes, the step that it is at, and how long it has taken."""
    step = deployment["step"]
    doing = _STEPS.get(step) or _STATUSES.get(deployment["status"]) or deployment["status"].replace("_", " ")
    where = f"{deployment['project']}/{deployment['environment'] or '(removed)'}"
    return f"Deployment {deployment['id']} to {where}: {doing}, {seconds_told(deployment['seconds'])}"


def seconds_told(seconds: float) -> str:
    """`3.2 s`, from a minute on `1m 4s`."""
    return f"{seconds:.1f} s" if seconds < 60 else show_duration(seconds)
