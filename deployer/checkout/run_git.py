"""Runs the system's git as Pharos' user: unattended, and without executing code of a repository.

Git uses that user's deploy keys, ssh configuration and credential helpers, and never asks for a password. Each git
process leads a process group of its own, which is killed if the call fails or is cancelled.
"""

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from deployer.checkout.failures import CheckOutFailed, explain_failure
from deployer.log_lines.lines import LineSplitter
from deployer.log_lines.masking import Mask
from deployer.processes.confinement import MARK_VARIABLE
from deployer.shield import shield

OnLine = Callable[[str], Awaitable[None]]

SSH_COMMAND = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o ConnectTimeout=30"
"""The ssh command: it never prompts, accepts the key of an unknown host, and refuses a changed key (ssh_config(5))."""

BUILD_SSH_COMMAND = (
    f"{SSH_COMMAND} -F /dev/null -o IdentitiesOnly=yes -o IdentityFile=none -o IdentityAgent=none "
    "-o UserKnownHostsFile=$HOME/.known_hosts"
)
"""The ssh command of the build's user. ssh looks for keys and settings in the home folder that /etc/passwd names,
whatever HOME is. If Pharos does not run as root, that is the operator's home."""

# Variables that git inherits: paths, the user's ssh agent, network proxies, and Git's configuration.
_INHERITED_VARIABLES = re.compile(
    "PATH|HOME|XDG_CONFIG_HOME|TMPDIR|USER|LOGNAME|SSH_AUTH_SOCK|(?:https?|all|no)_proxy|HTTPS_PROXY|ALL_PROXY|NO_PROXY"
    "|SSL_CERT_FILE|SSL_CERT_DIR|GIT_SSL_CAINFO|GIT_SSL_CAPATH|GIT_SSH|GIT_SSH_COMMAND|GIT_SSH_VARIANT"
    r"|GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)"
)
_FIXED_VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    # An empty value also keeps git from using core.askPass.
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_OPTIONAL_LOCKS": "0",
}
# Checks of git's fsck that Pharos skips: the errors are harmless, and old programs left them in the history of many
# repositories.
TOLERATED_FSCK_ERRORS = (
    "badDate badDateOverflow badEmail badName badTimezone missingEmail missingNameBeforeEmail missingSpaceBeforeDate "
    "missingSpaceBeforeEmail multipleAuthors missingTaggerEntry zeroPaddedDate zeroPaddedFilemode badFilemode "
    "nulInCommit"
)
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.version=2",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "fetch.fsckObjects=true",
    *(f"fetch.fsck.{fsck_error}=ignore" for fsck_error in TOLERATED_FSCK_ERRORS.split()),
    # `submodules.py` reports these faults with its own messages.
    "fetch.fsck.gitmodulesUrl=ignore",
    "fetch.fsck.gitmodulesUpdate=ignore",
)
# Options for background look-ups. Git uses one thread, since the stacks of several threads count towards the limit, and
# streams blobs above the threshold.
_MAX_MEMORY_MIB = 512
_LIMITED_SETTINGS = ("pack.threads=1", "core.bigFileThreshold=16m")
# The shell sets the limits before git starts, so git's child processes inherit them.
_LIMITED_SHELL = (
    "/bin/sh",
    "-c",
    # `ulimit` fails if the hard limit is already lower. The lower limit then stays.
    f"ulimit -d {_MAX_MEMORY_MIB * 1024} 2>/dev/null || :; "
    '{ echo 500 > /proc/self/oom_score_adj; } 2>/dev/null; exec "$@"',
    "sh",
)
_OUT_OF_MEMORY = "out of memory"
_COMMAND_NOT_FOUND = 127
_MAX_OUTPUT_BYTES = 1024 * 1024
_MAX_KEPT_LINES = 50
_MAX_LOGGED_LINES = 200
_DRAIN_SECONDS = 5
_NO_GIT = "There is no git on this machine. Install it, and deploy again."


@dataclass(frozen=True, slots=True)
class GitResult:
    """Says whether a git process succeeded, with its output."""

    succeeded: bool
    output: str
    error_lines: tuple[str, ...]
    """The last lines that git wrote to standard error."""


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in the repository at `git_dir`, with the given environment variables."""

    git_dir: Path
    environment: Mapping[str, str]
    is_limited: bool = False
    """True if git has a memory limit, and is the first process to be killed when the machine runs out of memory."""

    def offline(self) -> "Git":
        """Return a `Git` that contacts no host. Otherwise git fetches the missing objects of a partial clone by itself,
        without a limit."""
        # Before 2.45 (and 2.39.4) git ignores GIT_NO_LAZY_FETCH. The empty list of protocols stops those versions.
        return replace(
            self, environment={**self.environment, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
        )

    async def run(
        self,
        *arguments: str,
        on_line: OnLine | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> GitResult:
        """Run one command, and return its result also if the command fails.

        `on_line` receives messages of the host, and warnings. `on_output` receives the output, which the result then
        lacks; errors that `on_output` raises pass through. Cancellation kills the process and its child processes.
        Raises `CheckOutFailed` if there is no git, or the output exceeds 1 MiB.
        """
        limited = _LIMITED_SETTINGS if self.is_limited else ()
        settings = [part for setting in (*_SETTINGS, *limited) for part in ("-c", setting)]
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(_LIMITED_SHELL if self.is_limited else ()),
                "git",
                *settings,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                env={**self.environment, "GIT_DIR": str(self.git_dir)},
                start_new_session=True,
            )
        )
        try:
            process = await _wait_started(starting)
        except FileNotFoundError:
            raise CheckOutFailed(_NO_GIT) from None
        output = bytearray()
        error_lines: deque[str] = deque(maxlen=_MAX_KEPT_LINES)
        async with _killed_on_failure(process):
            await _wait_for_both(
                _read_output(process, on_output or _collect_bounded(output)),
                _read_lines(process, error_lines, on_line),
            )
            code = await process.wait()
        if self.is_limited and code:
            _check_limits(code, error_lines)
        return GitResult(code == 0, output.decode("utf-8", "replace"), tuple(error_lines))

    async def run_checked(self, *arguments: str, on_line: OnLine | None = None) -> str:
        """Run one command, and return its output. Raises `CheckOutFailed` if the command fails."""
        result = await self.run(*arguments, on_line=on_line)
        if not result.succeeded:
            raise explain_failure(result.error_lines)
        return result.output


async def open_git(url: str, git_dir: Path, mark: str | None = None, *, is_limited: bool = False) -> Git:
    """Return git with the ssh settings for this URL. `mark`: identifies git processes that a killed deployer leaves
    behind. Raises `CheckOutFailed`."""
    environment = {
        name: value for name, value in os.environ.items() if _INHERITED_VARIABLES.fullmatch(name)
    } | _FIXED_VARIABLES
    if mark is not None:
        environment[MARK_VARIABLE] = mark
    git = Git(git_dir, environment, is_limited)
    if url.startswith(("https://", "file://", "/")) or {"GIT_SSH", "GIT_SSH_COMMAND"} & environment.keys():
        return git
    # GIT_SSH_COMMAND would take precedence over the operator's core.sshCommand.
    configured = await Git(Path("/dev/null"), environment).run("config", "--get", "core.sshCommand")
    if configured.succeeded:
        return git
    return replace(git, environment={**environment, "GIT_SSH_COMMAND": SSH_COMMAND})


def _check_limits(code: int, error_lines: Iterable[str]) -> None:
    if code == _COMMAND_NOT_FOUND:
        raise CheckOutFailed(_NO_GIT)
    if any(_OUT_OF_MEMORY in line.lower() for line in error_lines):
        raise CheckOutFailed(
            f"Git needs more than {_MAX_MEMORY_MIB} MiB of memory to look up the commit: the commit, or another object "
            "of its repository, is too large."
        )


@asynccontextmanager
async def time_limit(deadline: float, message: str) -> AsyncIterator[None]:
    """Cancel the block at `deadline`, in the loop's time, and raise `CheckOutFailed` with the message."""
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise CheckOutFailed(message) from None
        raise


async def _wait_started(starting: asyncio.Future[asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Return git's process once it runs. If the start is cancelled, asyncio kills only git. This function also ends the
    processes that git has started."""
    try:
        await shield(asyncio.wait({starting}))
    except asyncio.CancelledError:
        # When the event loop is closed, `starting` is cancelled too.
        if not starting.cancelled() and starting.done() and starting.exception() is None:
            async with _killed_on_failure(starting.result()):
                raise
        raise
    return starting.result()


@asynccontextmanager
async def _killed_on_failure(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Kill the process and its child processes if the block raises."""
    try:
        yield
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # The event loop reaps a process, and closes its pipes, only after the pipes are read to the end.
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await _wait_for_both(
                    _read_output(process, lambda data: None), _read_lines(process, deque(maxlen=1), None)
                )
                await process.wait()
        raise


async def _wait_for_both(*readers: Awaitable[None]) -> None:
    """Wait for both coroutines. If one fails, cancel the other, since a stream can have only one reader at a time."""
    tasks = [asyncio.ensure_future(reader) for reader in readers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read_output(process: asyncio.subprocess.Process, take: Callable[[bytes], None]) -> None:
    assert process.stdout is not None
    while data := await process.stdout.read(65_536):
        take(data)


async def _read_lines(
    process: asyncio.subprocess.Process, error_lines: deque[str], on_line: OnLine | None
) -> None:
    assert process.stderr is not None
    splitter = LineSplitter(Mask(()))
    logged = 0
    while data := await process.stderr.read(65_536):
        for line in splitter.feed(data):
            error_lines.append(line)
            if on_line and line.startswith(("remote: ", "warning: ")) and logged < _MAX_LOGGED_LINES:
                logged += 1
                await on_line(line)
    error_lines.extend(splitter.flush())


def _collect_bounded(output: bytearray) -> Callable[[bytes], None]:
    def take(data: bytes) -> None:
        if len(output) + len(data) > _MAX_OUTPUT_BYTES:
            raise CheckOutFailed(
                "The repository has more branches and tags, or submodules, than can be listed."
            )
        output.extend(data)

    return take
