"""Checks of the machine: versions, memory, Git, and how far commands of applications can be confined."""

import asyncio
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

from deployer.processes.confinement import build_search_path
from deployer.processes.operator_account import operator_groups
from deployer.processes.start_process import probe_confinement
from operator_cli.doctor.finding import Finding
from pipeline_contracts.settings import Settings

_GIT_SECONDS = 10
_MIN_OPEN_FILES = 4096
_MIN_MEMORY_BYTES = 2 * 2**30


def check_machine(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about the machine that runs this command."""
    yield Finding("Pharos", "ok", version("pharos"))
    yield Finding("Python", "ok", f"{platform.python_version()}, {sys.executable}")
    yield Finding("System", "ok", platform.platform())
    yield _check_memory()
    yield _check_open_files()
    yield _check_git()
    yield from _check_confinement()
    yield _check_validator(settings)


def _check_memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    detail = f"{total / 2**30:.1f} GiB"
    if total < _MIN_MEMORY_BYTES:
        return Finding("Memory", "warning", detail, "Pharos and a few applications need 2 GiB or more.")
    return Finding("Memory", "ok", detail)


def _check_open_files() -> Finding:
    # `pharos up` does not raise the soft limit itself.
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    if soft != resource.RLIM_INFINITY and soft < _MIN_OPEN_FILES:
        advice = f"Each connection needs one: raise the limit with `ulimit -n {_MIN_OPEN_FILES * 4}`."
        return Finding("Open files", "warning", detail, advice)
    return Finding("Open files", "ok", detail)


def _check_git() -> Finding:
    advice = "Deploys need Git. On Debian: apt-get install git"
    git = shutil.which("git", path=build_search_path())
    if git is None:
        return Finding("Git", "error", "not found", advice)
    try:
        shown = subprocess.run(
            [git, "--version"], capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Git", "error", f"{git} does not run: {error}", advice)
    return Finding("Git", "ok", f"{shown.stdout.strip().removeprefix('git version ')}, {git}")


def _check_confinement() -> Iterator[Finding]:
    """Yield how far this machine confines the commands of deployed applications."""
    missing = asyncio.run(probe_confinement())
    if missing.namespaces is None:
        yield Finding("Namespaces", "ok", "available: applications see only their own files and processes")
    else:
        yield Finding(
            "Namespaces",
            "warning",
            f"not available: only users and limits confine applications ({missing.namespaces})",
            "Run Pharos as root, or allow user namespaces (see docs/security.md). In Docker: docker-compose.yml.",
        )
        if groups := operator_groups():
            yield Finding(
                "Groups",
                "warning",
                f"applications inherit the groups {', '.join(map(str, groups))} of the user who runs Pharos",
                "Run Pharos as a user in no other groups: membership in `docker` gives applications root.",
            )
    if missing.filter is None:
        yield Finding("Call filter", "ok", "available: seccomp refuses dangerous system calls")
    else:
        yield Finding(
            "Call filter",
            "warning",
            f"not available: applications can use all system calls ({missing.filter})",
            "Use a kernel with seccomp filters, on x86-64 or arm64.",
        )


def _check_validator(settings: Settings) -> Finding:
    from ingest_edge.accelerator import find_accelerator

    _, validator = find_accelerator(settings.accelerator)
    return Finding("Request bodies", "ok", f"validated by {validator}")
