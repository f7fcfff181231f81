"""The submodules that a revision names: where they may come from, and how they are fetched."""

import re
from dataclasses import dataclass, field
from typing import Final

from deployer.check_out.failures import CheckOutFailed, shorten
from deployer.check_out.run_git import Git

_REMOTE: Final = re.compile(
    r"(?:https|ssh)://[^-/\s]\S*|[A-Za-z0-9_][A-Za-z0-9._-]*@(?!-)[^\s:/]+:(?![-:])\S+"
)
_RELATIVE: Final = ("./", "../")


@dataclass(slots=True)
class _Submodule:
    urls: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)


async def read_submodules(git: Git, url: str, revision: str) -> bool:
    """Whether the revision has submodules to fetch. `url` is the repository's own.

    Read from the objects: in the work tree, where `.gitmodules` will stand, it may be anything. Raises
    `CheckOutFailed` for a submodule that is not reached over https or ssh, and names it.
    """
    entry = await git.must("ls-tree", "-z", "--full-tree", revision, "--", ".gitmodules")
    if not entry:
        return False
    if not entry.startswith("100"):
        raise CheckOutFailed(".gitmodules is no plain file. Make it one.")
    answer = await git.run("config", "--blob", f"{revision}:.gitmodules", "--no-includes", "--list", "-z")
    if not answer.succeeded:
        reason = shorten(next(iter(answer.said), "it ended."))
        raise CheckOutFailed(f"Git cannot read .gitmodules. Mend it. Git says: {reason}")
    for name, submodule in _read_settings(answer.output).items():
        _check(name, submodule, url)
    return True


def _read_settings(listed: str) -> dict[str, _Submodule]:
    """By the submodules' names; the last of several values counts for git, and all are looked at here."""
    found: dict[str, _Submodule] = {}
    for setting in listed.split("\0"):
        key, _, value = setting.partition("\n")
        section, _, rest = key.partition(".")
        name, _, called = rest.rpartition(".")
        if section != "submodule" or not name:
            continue
        submodule = found.setdefault(name, _Submodule())
        if called == "url":
            submodule.urls.append(value)
        elif called == "update":
            submodule.updates.append(value)
    return found


def _check(name: str, submodule: _Submodule, url: str) -> None:
    if any(update.startswith("!") for update in submodule.updates):
        raise CheckOutFailed(
            f"The submodule {shorten(name)!r} is to be updated by a program. Leave its `update` out."
        )
    for given in submodule.urls:
        if given.startswith(_RELATIVE):
            if not _is_remote(url):
                raise CheckOutFailed(
                    f"The submodule {shorten(name)!r} is at {shorten(given)!r}, beside the repository, which is on "
                    "this machine. Give the submodule an address with https:// or ssh://."
                )
        elif not _is_remote(given):
            raise CheckOutFailed(
                f"The submodule {shorten(name)!r} is at {shorten(given)!r}: submodules are taken over https and ssh "
                "alone. Give it such an address."
            )


def _is_remote(url: str) -> bool:
    return "::" not in url.partition("/")[0] and url.isprintable() and _REMOTE.fullmatch(url) is not None
