"""Show the progress of a deployment: a live status line at a terminal, plain lines, or JSON lines."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from operator_cli.durations import format_elapsed
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import sanitize
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep

MARK = "» "
"""The prefix of lines that Pharos writes. Output of steps has no prefix."""
_MAX_LINE_LENGTH = 20_000
_PROGRESS: Mapping[str, str] = {
    DeploymentStatus.QUEUED: "queued",
    DeploymentStatus.DEPLOYING: "checking out",
    DeploymentStatus.RUNNING: "starting",
    DeploymentStep.CHECK_OUT: "checking out",
    DeploymentStep.BUILD: "building",
    DeploymentStep.RELEASE: "release steps",
    DeploymentStep.START: "starting",
    DeploymentStep.SWITCH: "switching",
}


class FollowScreen:
    """Prints lines of a deployment's log, sanitized for a terminal, and the status line below them."""

    def __init__(self, *, as_json: bool, is_quiet: bool = False, shows_status: bool = True) -> None:
        self._as_json = as_json
        self._is_quiet = is_quiet
        self._console = Console(highlight=False, soft_wrap=True)
        self._is_for_people = self._console.is_terminal and not as_json
        self._errors = Console(highlight=False, soft_wrap=True, stderr=True)
        self.is_live = shows_status and self._is_for_people and not is_quiet
        """True if there is a status line."""
        self._line = Status("", console=self._console) if self.is_live else None
        self._target = ""
        self._began = time.monotonic()
        self.status = ""
        """The status of the deployment in the last `update`."""
        self.last_system_line = ""
        """The last line that Pharos wrote to the log."""

    def __enter__(self) -> "FollowScreen":
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.stop()

    def begin(self, target: str, elapsed: float) -> None:
        """Set the beginning of the status line, and the seconds since the deployment began."""
        self._target = target
        self._began = time.monotonic() - elapsed

    def show(self, lines: Sequence[dict[str, Any]]) -> None:
        """Print lines of the log."""
        for line in lines:
            if line["stream"] == "system":
                self.last_system_line = sanitize(line["text"], max_length=_MAX_LINE_LENGTH)
            if not self._is_quiet:
                self._show_line(line)
        sys.stdout.flush()

    def update(self, status: str, step: str | None = None) -> None:
        """Update the status line."""
        self.status = status
        if self._line is not None:
            progress = describe_progress(status, step)
            elapsed = format_elapsed(time.monotonic() - self._began)
            self._line.update(Text(f"{self._target}: {progress}, {elapsed}"))

    def _show_line(self, line: dict[str, Any]) -> None:
        if self._as_json:
            print(json.dumps(line))
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
        console = self._errors if self._line is None else self._console
        console.print(Text(qualify_commands(f"pharos: {text}")))


def describe_progress(status: str, step: str | None) -> str:
    """Return the present activity of a deployment: `building`."""
    return _PROGRESS.get(step or status) or status.replace("_", " ")
