"""The commands that write a fetched revision into its work tree, as the user that builds.

They run where the build does, so they bring what git needs along. That user has none of Pharos' credentials: a
repository names its submodules, and could have others fetched for it that Pharos may read.

Git reads no settings from that user's home: an earlier build may have written filters and attributes there that change
the files of a commit. The settings of the machine (/etc/gitconfig) apply. Known ssh hosts stay in the home.
"""

from collections.abc import Awaitable, Callable

from deployer.check_out.run_git import OLD_MISTAKES, OWNER_SSH_COMMAND

AsOwner = Callable[[str], Awaitable[None]]
"""Runs a command of the shell in the folder, confined, as the build's own user; what it prints goes to the log."""

# Git reads attributes in XDG_CONFIG_HOME or HOME even where GIT_CONFIG_GLOBAL names another file.
_NO_HOME = "GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent"
_GIT = (
    "LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= SSH_ASKPASS= GIT_TEMPLATE_DIR= GIT_ALLOW_PROTOCOL=https:ssh "
    # In double quotes: the shell expands HOME before the following words set a different HOME.
    f'GIT_SSH_COMMAND="{OWNER_SSH_COMMAND}" {_NO_HOME} '
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false "
    "-c protocol.version=2 -c advice.detachedHead=false"
)
_CHECKED = " ".join(f"-c fetch.fsck.{mistake}=ignore" for mistake in OLD_MISTAKES.split())
_UPDATE = (
    f"{_GIT} -c fetch.fsckObjects=true {_CHECKED} submodule --quiet update --init --recursive --checkout"
)
# A shallow submodule gets no deeper by an update: it is begun anew.
_UPDATE_SUBMODULES = (
    f"{_UPDATE} --depth 1 || {{ "
    "echo 'Not all submodules could be fetched without their history: fetching it, too.' && "
    f"{_GIT} submodule --quiet deinit --all --force && rm -rf .git/modules && {_UPDATE}; }}"
)


async def write_tree(revision: str, has_submodules: bool, as_owner: AsOwner) -> None:
    """Write the files of this commit, and those of its submodules. What `as_owner` raises passes through."""
    await as_owner(f"{_GIT} -c submodule.recurse=false checkout --quiet --detach {revision}")
    if has_submodules:
        await as_owner(_UPDATE_SUBMODULES)
