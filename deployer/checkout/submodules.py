"""Reads the submodules of a revision, and refuses those that may not be fetched."""

import re
from dataclasses import dataclass, field
from typing import Final

from deployer.checkout.failures import CheckOutFailed, shorten
from deployer.checkout.run_git import Git

_REMOTE: Final = re.compile(
    r"(?:https|ssh)://[^-/\s]\S*|[A-Za-z0-9_][A-Za-z0-9._-]*@(?!-)[^\s:/]+:(?![-:])\S+"
)
_RELATIVE: Final = ("./", "../")


@dataclass(slots=True)
class _Submodule:
    urls: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)


async def read_submodules(git: Git, url: str, revision: str) -> bool:
    """Return True if the revision has submodules. `url` is the URL of the repository itself.

    Reads `.gitmodules` from git's objects, since the file in the work tree may be a link. Raises `CheckOutFailed`,
    which names the submodule, for a submodule whose URL is neither https nor ssh.
    """
    entry = await git.run_checked("ls-tree", "-z", "--full-tree", revision, "--", ".gitmodules")
    if not entry:
        return False
    if not entry.startswith("100"):
        raise CheckOutFailed(".gitmodules is not a regular file. Replace it with one.")
    result = await git.run("config", "--blob", f"{revision}:.gitmodules", "--no-includes", "--list", "-z")
    if not result.succeeded:
        reason = shorten(next(iter(result.error_lines), "it ended."))
        raise CheckOutFailed(f"Git cannot read .gitmodules. Fix it. Git says: {reason}")
    for name, submodule in _read_settings(result.output).items():
        _check(name, submodule, url)
    return True


def _read_settings(listed: str) -> dict[str, _Submodule]:
    """Return the submodules by name. A setting that occurs several times keeps all its values, although git uses only
    the last one."""
    found: dict[str, _Submodule] = {}
    for setting in listed.split("\0"):
        key, _, value = setting.partition("\n")
        section, _, rest = key.partition(".")
        name, _, option = rest.rpartition(".")
        if section != "submodule" or not name:
            continue
        submodule = found.setdefault(name, _Submodule())
        if option == "url":
            submodule.urls.append(value)
        elif option == "update":
            submodule.updates.append(value)
    return found


def _check(name: str, submodule: _Submodule, url: str) -> None:
    if any(update.startswith("!") for update in submodule.updates):
        raise CheckOutFailed(
            f"The submodule {shorten(name)!r} is to be updated by a program. Remove its `update` setting."
        )
    for submodule_url in submodule.urls:
        if submodule_url.startswith(_RELATIVE):
            if not _is_remote(url):
                raise CheckOutFailed(
                    f"The submodule {shorten(name)!r} is at {shorten(submodule_url)!r}, next to the repository, which "
                    "is on this machine. Give the submodule an address with https:// or ssh://."
                )
        elif not _is_remote(submodule_url):
            raise CheckOutFailed(
                f"The submodule {shorten(name)!r} is at {shorten(submodule_url)!r}: submodules are fetched only over "
                "https and ssh. Give it such an address."
            )


def _is_remote(url: str) -> bool:
    return "::" not in url.partition("/")[0] and url.isprintable() and _REMOTE.fullmatch(url) is not None
