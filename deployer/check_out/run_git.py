"""Runs the system's git as the user that Pharos runs as: unattended, and executing nothing of a repository.

That user's credentials count: its deploy keys, ssh configuration and credential helpers. Nobody is there to be asked
for others. A process of git and those that it starts are a group of their own, which ends with it.
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

from deployer.check_out.failures import CheckOutFailed, explain_failure
from deployer.log_lines.lines import LineSplitter
from deployer.log_lines.masking import Mask
from deployer.processes.confinement import MARK_VARIABLE
from deployer.processes.shielded import carry_out

OnLine = Callable[[str], Awaitable[None]]

SSH_COMMAND = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o ConnectTimeout=30"
"""No questions; a host that was not seen before is believed, one whose key changed is not (ssh_config(5))."""

OWNER_SSH_COMMAND = (
    f"{SSH_COMMAND} -F /dev/null -o IdentitiesOnly=yes -o IdentityFile=none -o IdentityAgent=none "
    "-o UserKnownHostsFile=$HOME/.known_hosts"
)
"""For the user that builds: ssh looks for keys and settings in the home of passwd, whatever HOME is, and where Pharos
is not root that is the operator's."""

# Of the environment: where things are, the user's ssh agent, the way to the network, and Git's configuration.
_INHERITED = re.compile(
    "PATH|HOME|XDG_CONFIG_HOME|TMPDIR|USER|LOGNAME|SSH_AUTH_SOCK|(?:https?|all|no)_proxy|HTTPS_PROXY|ALL_PROXY|NO_PROXY"
    "|SSL_CERT_FILE|SSL_CERT_DIR|GIT_SSL_CAINFO|GIT_SSL_CAPATH|GIT_SSH|GIT_SSH_COMMAND|GIT_SSH_VARIANT"
    r"|GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)"
)
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    # Set and empty, they also keep git from core.askPass.
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_OPTIONAL_LOCKS": "0",
}
# Mistakes of old programs, which repositories of many years have and nothing here falls over.
OLD_MISTAKES = (
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
    *(f"fetch.fsck.{mistake}=ignore" for mistake in OLD_MISTAKES.split()),
    # These have sentences of their own.
    "fetch.fsck.gitmodulesUrl=ignore",
    "fetch.fsck.gitmodulesUpdate=ignore",
)
# For what runs unasked. One thread, since the stacks of many count; blobs are streamed from a size on.
_MOST_MEMORY_MIB = 512
_LIMITED_SETTINGS = ("pack.threads=1", "core.bigFileThreshold=16m")
# Set before git starts, so that all which it starts has the limits too.
_LIMITED = (
    "/bin/sh",
    "-c",
    # A hard limit that is lower already refuses, and stays.
    f"ulimit -d {_MOST_MEMORY_MIB * 1024} 2>/dev/null || :; "
    '{ echo 500 > /proc/self/oom_score_adj; } 2>/dev/null; exec "$@"',
    "sh",
)
_OUT_OF_MEMORY = "out of memory"
_NOT_FOUND = 127
_MOST_OUTPUT = 1024 * 1024
_MOST_KEPT_LINES = 50
_MOST_LOGGED_LINES = 200
_DRAIN_SECONDS = 5
_NO_GIT = "There is no git on this machine. Install it, and deploy again."


@dataclass(frozen=True, slots=True)
class Answer:
    """How a git process ended: whether it did well, what it gave, and the last lines that it said."""

    succeeded: bool
    output: str
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Git:
    """Git in a repository, which is at `git_dir`, with an environment."""

    git_dir: Path
    environment: Mapping[str, str]
    is_limited: bool = False
    """Whether each of its processes has a memory limit, and goes first where the machine runs out of memory."""

    def offline(self) -> "Git":
        """Return git without access to any host: git fetches missing objects of a partial clone by itself, and without
        a limit."""
        # Before 2.45 (and 2.39.4) git ignores GIT_NO_LAZY_FETCH. The empty list of protocols stops those versions.
        return replace(
            self, environment={**self.environment, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
        )

    async def run(
        self,
        *arguments: str,
        on_line: OnLine | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """Run one command, whatever it answers. `on_line` is given what the host says, and warnings.

        `on_output` is given the output, of which the answer then has none; what it raises passes through. Cancel it
        to end the process and all that it started. Raises `CheckOutFailed` where there is no git, or more output
        than is taken.
        """
        limited = _LIMITED_SETTINGS if self.is_limited else ()
        settings = [part for setting in (*_SETTINGS, *limited) for part in ("-c", setting)]
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(_LIMITED if self.is_limited else ()),
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
        said: deque[str] = deque(maxlen=_MOST_KEPT_LINES)
        async with _ended_together(process):
            await _both(
                _read_output(process, on_output or _bounded(output)), _read_lines(process, said, on_line)
            )
            code = await process.wait()
        if self.is_limited and code:
            _check_limits(code, said)
        return Answer(code == 0, output.decode("utf-8", "replace"), tuple(said))

    async def must(self, *arguments: str, on_line: OnLine | None = None) -> str:
        """Run one command, and give its output. Raises `CheckOutFailed`."""
        answer = await self.run(*arguments, on_line=on_line)
        if not answer.succeeded:
            raise explain_failure(answer.said)
        return answer.output


async def open_git(url: str, git_dir: Path, mark: str | None = None, *, is_limited: bool = False) -> Git:
    """Git for what comes from this address. `mark`: by which what a killed deployer leaves of it is found and ended.
    Raises `CheckOutFailed`."""
    environment = {name: value for name, value in os.environ.items() if _INHERITED.fullmatch(name)} | _FIXED
    if mark is not None:
        environment[MARK_VARIABLE] = mark
    git = Git(git_dir, environment, is_limited)
    if url.startswith(("https://", "file://", "/")) or {"GIT_SSH", "GIT_SSH_COMMAND"} & environment.keys():
        return git
    # The environment's would go before the operator's.
    configured = await Git(Path("/dev/null"), environment).run("config", "--get", "core.sshCommand")
    if configured.succeeded:
        return git
    return replace(git, environment={**environment, "GIT_SSH_COMMAND": SSH_COMMAND})


def _check_limits(code: int, said: Iterable[str]) -> None:
    if code == _NOT_FOUND:
        raise CheckOutFailed(_NO_GIT)
    if any(_OUT_OF_MEMORY in line.lower() for line in said):
        raise CheckOutFailed(
            f"Git needs more than {_MOST_MEMORY_MIB} MiB of memory to look the commit up: the commit, or something "
            "else of its repository, is too large."
        )


@asynccontextmanager
async def until(deadline: float, sentence: str) -> AsyncIterator[None]:
    """End what is within at this time of the loop's clock. Raises `CheckOutFailed` with the sentence."""
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise CheckOutFailed(sentence) from None
        raise


async def _wait_started(starting: asyncio.Future[asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Return git's process once it runs. If the start is cancelled, asyncio kills git only; this also ends what git has
    started."""
    try:
        await carry_out(asyncio.wait({starting}))
    except asyncio.CancelledError:
        # At the end of the loop `starting` is cancelled too.
        if not starting.cancelled() and starting.done() and starting.exception() is None:
            async with _ended_together(starting.result()):
                raise
        raise
    return starting.result()


@asynccontextmanager
async def _ended_together(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Where what is within does not come to its end, the process and those that it started do not live on."""
    try:
        yield
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # The loop reaps a process, and closes its pipes, only once they are read to their ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await _both(
                    _read_output(process, lambda data: None), _read_lines(process, deque(maxlen=1), None)
                )
                await process.wait()
        raise


async def _both(*readers: Awaitable[None]) -> None:
    """Wait for both; where one fails the other is ended, since a stream has one reader at a time."""
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


async def _read_lines(process: asyncio.subprocess.Process, said: deque[str], on_line: OnLine | None) -> None:
    assert process.stderr is not None
    splitter = LineSplitter(Mask(()))
    logged = 0
    while data := await process.stderr.read(65_536):
        for line in splitter.feed(data):
            said.append(line)
            if on_line and line.startswith(("remote: ", "warning: ")) and logged < _MOST_LOGGED_LINES:
                logged += 1
                await on_line(line)
    said.extend(splitter.flush())


def _bounded(output: bytearray) -> Callable[[bytes], None]:
    def take(data: bytes) -> None:
        if len(output) + len(data) > _MOST_OUTPUT:
            raise CheckOutFailed(
                "The repository has more branches and tags, or submodules, than can be listed."
            )
        output.extend(data)

    return take
