"""Creates the Git repositories of the demo, with real commits of past dates for the shop and its branches."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Template

from demo.story.releases import BRANCHES, COMMITS, NEXT_COMMITS, Commit, Timeline

_APPLICATION = Path(__file__).parents[1] / "application"
_FILES = ("app.py", "worker.py", "index.html", "pharos.yaml")
_GIT_SECONDS = 30
_HEALTH, _MISSING_HEALTH = "/healthz", "/health"
_BROKEN_VERSION = NEXT_COMMITS[1].version
WORKSHOP_COMMITS = (
    Commit("1.0.0", "Print parcel labels", "Jonas Berg", 480),
    Commit("1.1.0", "Plan the kiln by due date", "Ingrid Solberg", 290),
    Commit("1.2.0", "Count brass stock in grams", "Ingrid Solberg", 26),
)


class GitFailed(Exception):
    """Git cannot make the repository. The message says why."""


async def make_shop_commits(path: Path, timeline: Timeline) -> dict[str, str]:
    """Add the commits of the shop to the bare repository; return the commits by version. Raises `GitFailed`."""
    commits = [("main", commit) for commit in (*COMMITS, *NEXT_COMMITS)]
    commits += [(branch, commit) for branch, commit in BRANCHES.items()]
    made = await asyncio.to_thread(_import_commits, path, commits, timeline)
    await asyncio.to_thread(_git, path, "update-ref", "refs/heads/develop", "refs/heads/main")
    return made


async def make_workshop_repository(path: Path, timeline: Timeline) -> dict[str, str]:
    """Make the bare repository of the second project; return its commits by version. Raises `GitFailed`."""

    def make() -> dict[str, str]:
        _run(["git", "init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(path)], b"")
        return _import_commits(path, [("main", commit) for commit in WORKSHOP_COMMITS], timeline)

    return await asyncio.to_thread(make)


def _import_commits(path: Path, commits: list[tuple[str, Commit]], timeline: Timeline) -> dict[str, str]:
    marks = path / "demo-marks"
    has_main = _git(path, "for-each-ref", "refs/heads/main").strip() != b""
    stream = b"".join(_write_stream(commits, timeline, has_main))
    _git(path, "fast-import", "--quiet", "--force", "--done", f"--export-marks={marks}", stdin=stream)
    by_mark = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    return {commit.version: by_mark[f":{number}"] for number, (_, commit) in enumerate(commits, 1)}


def _write_stream(commits: list[tuple[str, Commit]], timeline: Timeline, has_main: bool) -> Iterator[bytes]:
    """Yield the commits in the format of git-fast-import(1)."""
    last_of_main = 0
    for number, (branch, commit) in enumerate(commits, 1):
        at = int(timeline.at(commit.hours_ago).timestamp())
        email = f"{commit.author.split()[0].lower()}@lanterns.example"
        yield f"commit refs/heads/{branch}\nmark :{number}\n".encode()
        yield f"committer {commit.author} <{email}> {at} +0000\n".encode()
        yield _data(f"{commit.subject}\n".encode())
        if last_of_main:
            yield f"from :{last_of_main}\n".encode()
        elif has_main:
            yield b"from refs/heads/main^0\n"
        for name in _FILES:
            yield f"M 100644 inline {name}\n".encode()
            yield _data(_read_file(name, commit.version))
        if branch == "main":
            last_of_main = number
    yield b"done\n"


def _read_file(name: str, version: str) -> bytes:
    health = _MISSING_HEALTH if version == _BROKEN_VERSION else _HEALTH
    text = Template((_APPLICATION / name).read_text(encoding="utf-8"))
    return text.safe_substitute(version=version, health=health).encode()


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _git(path: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    return _run(["git", f"--git-dir={path}", *arguments], stdin)


def _run(command: list[str], stdin: bytes) -> bytes:
    # Ignore the user's settings: no hooks, no other repository format.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            check=True,
            cwd="/",
            env=environment,
            timeout=_GIT_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        raise GitFailed(error.stderr.decode("utf-8", "replace").strip()) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(str(error)) from error
    return done.stdout
