"""Show a deployment while it is followed: a terminal with a live status line, a plain stream, or JSON lines."""

import json
import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from operator_cli.durations import format_duration
from operator_cli.terminal_text import sanitize
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep

MARK = "» "
"""Prefix of lines that Pharos writes; output of steps has none."""
_MAX_LINE_LENGTH = 20_000
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
    """Prints the documents of the action "deployments/follow", sanitized for a terminal."""

    def __init__(self, *, as_json: bool, is_live: bool = True) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._is_for_people = self._console.is_terminal and not as_json
        self._errors = Console(highlight=False, soft_wrap=True, stderr=True)
        self._status = Status("", console=self._console) if is_live and self._is_for_people else None
        self.last_system_line = ""
        """The last line that Pharos wrote to the log."""

    def __enter__(self) -> "FollowScreen":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, update: dict[str, Any]) -> None:
        """Print the new lines, and update the status line."""
        for line in update["lines"]:
            if line["stream"] == "system":
                self.last_system_line = sanitize(line["text"], max_length=_MAX_LINE_LENGTH)
            self._show_line(line)
        sys.stdout.flush()
        if self._status is not None:
            self._status.update(Text(describe_progress(update["deployment"])))

    def _show_line(self, line: dict[str, Any]) -> None:
        if self._as_json:
            print(json.dumps({name: line[name] for name in ("at", "stream", "text")}))
            return
        text, style = sanitize(line["text"], max_length=_MAX_LINE_LENGTH), ""
        if line["stream"] == "system":
            text, style = MARK + text, "cyan"
        if self._is_for_people:
            self._console.print(Text(text, style=style))
        else:
            print(text)

    def warn(self, text: str) -> None:
        """Print a message that is not part of the log."""
        # With a live status line rich must print the message, or the line overwrites it.
        (self._errors if self._status is None else self._console).print(Text(f"pharos: {text}"))


def describe_progress(deployment: dict[str, Any]) -> str:
    """Return the target, the current step and the elapsed time on one line."""
    step, status = deployment["step"], deployment["status"]
    activity = _STEPS.get(step) or _STATUSES.get(status) or status.replace("_", " ")
    target = f"{deployment['project']}/{deployment['environment'] or '(removed)'}"
    return f"Deployment {deployment['id']} to {target}: {activity}, {format_elapsed(deployment['seconds'])}"


def format_elapsed(seconds: float) -> str:
    """Return `3.2 s`, from a minute on `1m 4s`."""
    return f"{seconds:.1f} s" if seconds < 60 else format_duration(seconds)
